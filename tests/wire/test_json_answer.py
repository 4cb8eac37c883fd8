"""Answers as JSON: the bytes of the one-shot encoder, in slices or not."""

import json

import numpy as np
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from service.wire.json_answer import SLICE_ELEMENTS, encode_json

VALUES = (
    st.integers(-(2**63), 2**63 - 1)
    | st.booleans()
    | st.text(st.characters(exclude_categories=["Cs"]))
    | arrays(st.sampled_from([np.int32, np.int64, np.bool_]), st.integers(0, 40))
)
NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)


@given(st.dictionaries(NAMES, VALUES, max_size=5), st.integers(1, 12))
@settings(deadline=None)
def test_slices_join_to_the_bytes_of_the_one_shot_encoder(fields: dict[str, object], slice_elements: int) -> None:
    encoded = encode_json(fields, slice_elements)
    assert encoded == orjson.dumps(fields, option=orjson.OPT_SERIALIZE_NUMPY)
    plain = {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in fields.items()}
    assert json.loads(encoded) == plain


@pytest.mark.parametrize("length", [0, 1, SLICE_ELEMENTS - 1, SLICE_ELEMENTS, SLICE_ELEMENTS + 1, 3 * SLICE_ELEMENTS])
def test_arrays_around_the_slice_length_keep_every_element(length: int) -> None:
    values = np.arange(length, dtype=np.int64) - 5
    assert json.loads(encode_json({"a": values, "b": "x"})) == {"a": values.tolist(), "b": "x"}
