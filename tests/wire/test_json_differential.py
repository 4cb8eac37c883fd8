"""Random and damaged bodies: every decoder and the oracle accept the same ones, with the same values and messages."""

import json

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from service.spec import INTEGER_RANGE, PLAN_INPUTS, ScalarSpec, TensorSpec
from service.wire.small_body import decode_small_body
from tests.wire.json_bodies import answers, require_same
from tests.wire.json_oracle import Refused, expected_fields

SPACE = st.sampled_from(["", "", "", " ", "\t", "\r\n", " " * 30])
EDGES = {dtype: st.sampled_from([0, 1, -1, 9, 10, *INTEGER_RANGE[dtype]]) for dtype in INTEGER_RANGE}
WORDS = rb'1 - 0 . e 1.5 1e5 true null NaN 99999999999 [ ] , { } : [] {} [1] " \ "a" "\u0061" \u00 "prefix_lens"'
BYTES = [b" ", b"\x00", b"\x0b", b"\xff", b"\xc3\xa9", b"\xef\xbb\xbf"]
LONG = [b"9" * 30, b"0" * 40, b'{"a": 1}', b'"prefix_lens": [1],']
FRAGMENTS = st.sampled_from([*WORDS.split(), *BYTES, *LONG])


@st.composite
def number_text(draw: st.DrawFn, field: TensorSpec | ScalarSpec) -> str:
    value = draw(EDGES[field.dtype] | st.integers(*INTEGER_RANGE[field.dtype]))
    return "-0" if value == 0 and draw(st.booleans()) else str(value)


@st.composite
def array_text(draw: st.DrawFn, field: TensorSpec, shape: tuple[int, ...]) -> str:
    if not shape:
        return draw(number_text(field))
    elements = [draw(array_text(field, shape[1:])) for _ in range(shape[0])]
    return "[" + draw(SPACE) + (draw(SPACE) + "," + draw(SPACE)).join(elements) + draw(SPACE) + "]"


@st.composite
def bodies(draw: st.DrawFn) -> bytes:
    """Valid bodies, some arrays of another rank than their field's."""
    members = []
    for field in draw(st.permutations(PLAN_INPUTS)):
        optional = isinstance(field, ScalarSpec) or not field.required
        if optional and draw(st.integers(0, 2)):
            continue
        if optional and draw(st.integers(0, 3)) == 0:
            text = "null"
        elif isinstance(field, ScalarSpec):
            text = draw(number_text(field))
        else:
            rank = draw(st.just(field.rank) | st.just(field.rank) | st.integers(0, 3))
            text = draw(array_text(field, tuple(draw(st.lists(st.integers(0, 4), min_size=rank, max_size=rank)))))
        members.append(json.dumps(field.name) + draw(SPACE) + ":" + draw(SPACE) + text)
    inside = (draw(SPACE) + "," + draw(SPACE)).join(members)
    return (draw(SPACE) + "{" + draw(SPACE) + inside + draw(SPACE) + "}" + draw(SPACE)).encode()


@st.composite
def damaged_bodies(draw: st.DrawFn) -> bytes:
    """Bodies with bytes flipped, removed, doubled, or replaced by something that a body might hold."""
    body = draw(bodies())
    for _ in range(draw(st.integers(1, 2))):
        start = draw(st.integers(0, len(body)))
        stop = min(len(body), start + draw(st.sampled_from([0, 1, 1, 2, 5, 20])))
        how = draw(st.sampled_from(["insert", "replace", "remove", "double", "flip"]))
        if how == "flip":
            middle = bytes(byte ^ 1 << draw(st.integers(0, 7)) for byte in body[start:stop])
        elif how == "double":
            middle = body[start:stop] * 2
        elif how == "remove":
            middle = b""
        else:
            middle = draw(FRAGMENTS) + (body[start:stop] if how == "insert" else b"")
        body = body[:start] + middle + body[stop:]
    return body


def require_agreement(body: bytes) -> None:
    """All decoders answer alike: as the oracle does, or with one message."""
    found = answers(body)
    try:
        want = expected_fields(body, PLAN_INPUTS)
    except Refused:
        assert len({str(answer) for answer in found}) == 1
        assert isinstance(found[0], str)
        assert found[0].encode()
        assert decode_small_body(body, PLAN_INPUTS) is None
        return
    for have in found:
        require_same(have, want)


@given(bodies())
@settings(max_examples=80, deadline=None)
def test_valid_bodies_have_the_values_of_the_standard_library(body: bytes) -> None:
    require_agreement(body)


@given(damaged_bodies())
@settings(max_examples=300, deadline=None)
def test_damaged_bodies_are_judged_alike_by_all(body: bytes) -> None:
    require_agreement(body)


@given(st.binary(max_size=40) | FRAGMENTS)
@settings(max_examples=80, deadline=None)
def test_bytes_that_are_no_batch_are_judged_alike_by_all(text: bytes) -> None:
    require_agreement(text)
    require_agreement(b'{"prefix_lens": ' + text + b"}")


@given(st.integers(0, 2**32 - 1), st.integers(1, 60), st.integers(1, 60))
@settings(max_examples=8, deadline=None)
def test_large_tables_have_the_values_of_the_standard_library(seed: int, rows: int, cols: int) -> None:
    digits = np.random.default_rng(seed).integers(1, 31, (rows, cols))
    table = (np.random.default_rng(seed).integers(-(2**31), 2**31, (rows, cols)) >> digits).tolist()
    batch = {"req_pool_indices": [1], "prefix_lens": [2**40], "extend_seq_lens": [], "req_to_token": table}
    require_agreement(json.dumps(batch).encode())
