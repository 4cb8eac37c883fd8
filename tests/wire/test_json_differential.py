"""Random and damaged bodies: every decoder and the oracle accept the same ones, with the same values and messages."""

import json
from collections.abc import Sequence

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from service.spec import PLAN_INPUTS, FieldSpec
from service.wire.small_body import decode_small_body
from tests.wire.json_bodies import EITHER_FIELDS, NESTED_FIELDS, answers, require_same
from tests.wire.json_oracle import Refused, expected_fields
from tests.wire.json_strategies import OBJECT_NAMES, bodies, damaged

WORDS = rb'1 - 0 . e 1.5 1e5 true null NaN 99999999999 [ ] , { } : [] {} [1] " \ "a" "\u0061" \u00 "prefix_lens"'
BYTES = [b" ", b"\x00", b"\x0b", b"\xff", b"\xc3\xa9", b"\xef\xbb\xbf"]
LONG = [b"9" * 30, b"0" * 40, b'{"a": 1}', b'"prefix_lens": [1],']
FRAGMENTS = st.sampled_from([*WORDS.split(), *BYTES, *LONG])
OBJECTS = rb'}} }}} }, {}, "n":1 ,"n":1 "n":{} "lens":[1], "a":{ "swa":{}, "groups" "pool":"}," :{ "\ud800" true, [{}]'
NESTED_FRAGMENTS = FRAGMENTS | st.sampled_from(OBJECTS.split())


def require_agreement(body: bytes, fields: Sequence[FieldSpec] = PLAN_INPUTS) -> None:
    """All decoders answer alike: as the oracle does, or with one message."""
    found = answers(body, fields)
    try:
        want = expected_fields(body, fields)
    except Refused:
        assert len({str(answer) for answer in found}) == 1
        assert isinstance(found[0], str)
        assert found[0].encode()
        assert decode_small_body(body, fields) is None
        return
    for have in found:
        require_same(have, want)


@given(bodies(PLAN_INPUTS))
@settings(max_examples=80, deadline=None)
def test_valid_bodies_have_the_values_of_the_standard_library(body: bytes) -> None:
    require_agreement(body)


@given(damaged(bodies(PLAN_INPUTS), FRAGMENTS))
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


@given(bodies(NESTED_FIELDS))
@settings(max_examples=40, deadline=None)
def test_valid_nested_bodies_have_the_values_of_the_standard_library(body: bytes) -> None:
    require_agreement(body, NESTED_FIELDS)


@given(damaged(bodies(NESTED_FIELDS), NESTED_FRAGMENTS))
@settings(max_examples=100, deadline=None)
def test_damaged_nested_bodies_are_judged_alike_by_all(body: bytes) -> None:
    require_agreement(body, NESTED_FIELDS)


NAMES = st.sampled_from([*OBJECT_NAMES, "pool", "use", "plan", "inner", "table", "0", "-", ""])
LEAVES = ["1", "[]", "[1]", "[[1]]", "[true]", "[1e0]", '["1"]', "[null]", "[{}]", "true", "false", "null", "1.0", "{}"]
LEAVES += ['""', '"1"', '"true"', '"null"', '"n"', '"\\u0061"', '"\\\\"']


def _object(members: list[tuple[str, str]]) -> str:
    return "{" + ",".join(f'"{name}":{text}' for name, text in members) + "}"


SOUP = st.recursive(
    st.sampled_from(LEAVES),
    lambda inner: st.lists(st.tuples(NAMES, inner), max_size=4).map(_object),
    max_leaves=12,
)


@given(SOUP, st.lists(st.tuples(NAMES, SOUP), max_size=2))
@settings(max_examples=200, deadline=None)
def test_equal_names_and_words_for_names_and_for_values_are_judged_alike_by_all(
    text: str, more: list[tuple[str, str]]
) -> None:
    required = [("lens", "[]"), ("plan", '{"lens":[]}'), ("groups", _object([("a", text), ("n", "{}")]))]
    require_agreement(_object(required + more).encode(), NESTED_FIELDS)
    require_agreement(_object(more).encode(), EITHER_FIELDS)
