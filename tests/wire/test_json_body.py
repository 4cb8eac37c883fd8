"""Bodies written by hand: what they decode to, and the exact message of each refusal."""

import json

import numpy as np
import pytest

from service.spec import INTEGER_RANGE, PLAN_INPUTS
from service.wire.json_body import decode_any_body
from service.wire.small_body import decode_small_body
from tests.wire.json_bodies import BATCH, answers, batch, refusal_message, require_same

TABLE_TEXTS = [
    ("5", 5, ()),
    ("-0", 0, ()),
    ("[]", [], (0, 0)),
    (" [ \t\r\n] ", [], (0, 0)),
    ("[[]]", [], (1, 0)),
    ("[[], []]", [], (2, 0)),
    ("[[[]]]", [], (1, 1, 0)),
    ("[1, 2]", [1, 2], (2,)),
    ("[[1,2],[3,4]]", [1, 2, 3, 4], (2, 2)),
    ("[ [ 1 , -2 ]\n,\t[ 3 ,\r4 ] ]", [1, -2, 3, 4], (2, 2)),
    ("[[[1], [2]], [[3], [4]]]", [1, 2, 3, 4], (2, 2, 1)),
    ("[[[[[[[[7]]]]]]]]", [7], (1,) * 8),
    ("[[-0, 0]]", [0, 0], (1, 2)),
    ("[[2147483647, -2147483648]]", [2147483647, -2147483648], (1, 2)),
]


@pytest.mark.parametrize(("text", "cells", "shape"), TABLE_TEXTS)
def test_a_table_has_the_values_and_the_rank_of_its_text(text: str, cells: object, shape: tuple[int, ...]) -> None:
    want = {
        "req_pool_indices": np.array([1]),
        "prefix_lens": np.array([1]),
        "extend_seq_lens": np.array([1]),
        "req_to_token": np.array(cells, np.int32).reshape(shape),
    }
    for have in answers(batch(req_to_token=text)):
        require_same(have, want)


def test_every_length_of_integer_keeps_its_digits() -> None:
    lowest, highest = INTEGER_RANGE["int64"]
    values = [sign * int("9876543210123456789"[start:]) for start in range(1, 19) for sign in (1, -1)]
    values += [lowest, highest, lowest + 1, highest - 1, 10**18, -(10**18)]
    for have in answers(batch(prefix_lens=json.dumps(values))):
        assert not isinstance(have, str)
        np.testing.assert_array_equal(have["prefix_lens"], np.array(values))


def test_scalars_are_integers_and_null_means_absent() -> None:
    for have in answers(batch(verify_capacity="9223372036854775807", swa_window_size="-3", write_req_capacity="null")):
        assert not isinstance(have, str)
        assert have["verify_capacity"] == 2**63 - 1
        assert have["swa_window_size"] == -3
        assert "write_req_capacity" not in have


def test_null_for_an_optional_array_means_absent() -> None:
    for have in answers(batch(full_to_swa_index_mapping="null")):
        assert not isinstance(have, str)
        assert set(have) == set(BATCH)


@pytest.mark.parametrize(
    "body",
    [
        b'{"\\u0072eq_pool_indices":[1],"prefix_lens":[1],"extend_seq_lens":[1],"req_to_token":[[0],[5]]}',
        b' \t\r\n{ "req_to_token" : [ [0] , [5] ] , "extend_seq_lens":[1],"prefix_lens":[1],"req_pool_indices":[1]}\n',
    ],
)
def test_escapes_in_names_white_space_and_the_order_of_members_do_not_matter(body: bytes) -> None:
    want = answers(batch())[0]
    assert not isinstance(want, str)
    for have in answers(body):
        require_same(have, want)


def test_a_plain_small_body_takes_the_quick_way_to_the_same_answer() -> None:
    body = batch(prefix_lens="[]", swa_window_size="4", verify_capacity="null", full_to_swa_index_mapping="null")
    quick = decode_small_body(body, PLAN_INPUTS)
    assert quick is not None
    require_same(quick, decode_any_body(body, PLAN_INPUTS))


def test_arrays_can_be_written_to() -> None:
    for have in answers(batch()):
        assert not isinstance(have, str)
        assert all(value.flags.writeable for value in have.values() if isinstance(value, np.ndarray))


INTEGER_FAULTS = [
    ("prefix_lens", "[1.0]", "prefix_lens[0]", "float"),
    ("prefix_lens", "[1, 1e3]", "prefix_lens[1]", "float"),
    ("prefix_lens", "[1E400]", "prefix_lens[0]", "float"),
    ("prefix_lens", "[-0.0]", "prefix_lens[0]", "float"),
    ("prefix_lens", "[0e-1]", "prefix_lens[0]", "float"),
    ("prefix_lens", "[1.5e+2]", "prefix_lens[0]", "float"),
    ("prefix_lens", "[1, true]", "prefix_lens[1]", "bool"),
    ("prefix_lens", "[false ]", "prefix_lens[0]", "bool"),
    ("prefix_lens", "[null]", "prefix_lens[0]", "null"),
    ("prefix_lens", '[1, "2"]', "prefix_lens[1]", "string"),
    ("prefix_lens", '["prefix_lens"]', "prefix_lens[0]", "string"),
    ("prefix_lens", '["a", "b"]', "prefix_lens[0]", "string"),
    ("prefix_lens", "[{}]", "prefix_lens[0]", "object"),
    ("prefix_lens", '[1, {"a": 1}]', "prefix_lens[1]", "object"),
    ("prefix_lens", "[1, [2]]", "prefix_lens[1]", "array"),
    ("prefix_lens", "[1, []]", "prefix_lens[1]", "array"),
    ("prefix_lens", "1.5", "prefix_lens", "float"),
    ("prefix_lens", "true", "prefix_lens", "bool"),
    ("prefix_lens", "null", "prefix_lens", "null"),
    ("prefix_lens", '"1"', "prefix_lens", "string"),
    ("prefix_lens", '"a \\n \\u00e9 \\"quoted\\""', "prefix_lens", "string"),
    ("prefix_lens", "{}", "prefix_lens", "object"),
    ("prefix_lens", '{"a": [1]}', "prefix_lens", "object"),
    ("req_to_token", "[[1, 2, 3], [4, 5, 6.5]]", "req_to_token[1][2]", "float"),
    ("req_to_token", '[[1], ["x"]]', "req_to_token[1][0]", "string"),
    ("req_to_token", "[[1], null]", "req_to_token[1]", "null"),
    ("req_to_token", "[[1], [[2]]]", "req_to_token[1][0]", "array"),
    ("req_to_token", "[[[1], [2]], [[3], [true]]]", "req_to_token[1][1][0]", "bool"),
    ("verify_capacity", "[4]", "verify_capacity", "array"),
    ("verify_capacity", "4.0", "verify_capacity", "float"),
    ("verify_capacity", "true", "verify_capacity", "bool"),
    ("verify_capacity", '"4"', "verify_capacity", "string"),
    ("verify_capacity", "{}", "verify_capacity", "object"),
]


@pytest.mark.parametrize(("name", "text", "place", "kind"), INTEGER_FAULTS)
def test_what_is_no_integer_is_named_with_its_place(name: str, text: str, place: str, kind: str) -> None:
    assert refusal_message(batch(**{name: text})) == f"kv-canary: {place} must be an integer, got {kind}"


VALUE_FAULTS = [
    ("req_to_token", "[[0], [2147483648]]", "req_to_token[1][0] value 2147483648", "int32"),
    ("req_to_token", "[[0], [-2147483649]]", "req_to_token[1][0] value -2147483649", "int32"),
    ("prefix_lens", "[9223372036854775808]", "prefix_lens[0] value 9223372036854775808", "int64"),
    ("prefix_lens", "[-9223372036854775809]", "prefix_lens[0] value -9223372036854775809", "int64"),
    ("prefix_lens", "[1, 18446744073709551616]", "prefix_lens[1] value 18446744073709551616", "int64"),
    ("prefix_lens", "99999999999999999999", "prefix_lens value 99999999999999999999", "int64"),
    ("verify_capacity", "9223372036854775808", "verify_capacity value 9223372036854775808", "int64"),
    ("kv_token_id_vs_position_offset", "2147483648", "kv_token_id_vs_position_offset value 2147483648", "int32"),
    ("prefix_lens", f"[{'7' * 1024}]", f"prefix_lens[0] value {'7' * 1024}", "int64"),
    ("prefix_lens", f"[-{'7' * 1025}]", "prefix_lens[0] value -777777777…(1025 digits)", "int64"),
    ("prefix_lens", f"[1, {'123456789' * 600}, 1]", "prefix_lens[1] value 123456789…(5400 digits)", "int64"),
    ("verify_capacity", "1" * 5000, "verify_capacity value 111111111…(5000 digits)", "int64"),
]


@pytest.mark.parametrize(("name", "text", "value", "dtype"), VALUE_FAULTS)
def test_an_integer_outside_its_dtype_is_named_with_its_value(name: str, text: str, value: str, dtype: str) -> None:
    assert refusal_message(batch(**{name: text})) == f"kv-canary: {value} does not fit torch.{dtype}"


SHAPE_FAULTS = [
    ("[[1], 2]", "kv-canary: req_to_token[1] must be an array, got integer"),
    ("[[], 2]", "kv-canary: req_to_token[1] must be an array, got integer"),
    ("[[[1]], [2]]", "kv-canary: req_to_token[1][0] must be an array, got integer"),
    ("[[1], 99999999999]", "kv-canary: req_to_token[1] must be an array, got integer"),
    ("[[1, 2], [3]]", "kv-canary: req_to_token rows differ in length: row 1 has 1, row 0 has 2"),
    ("[[1], [2], [3, 4, 5], []]", "kv-canary: req_to_token rows differ in length: row 2 has 3, row 0 has 1"),
    ("[[], [1]]", "kv-canary: req_to_token rows differ in length: row 1 has 1, row 0 has 0"),
    ("[[1], []]", "kv-canary: req_to_token rows differ in length: row 1 has 0, row 0 has 1"),
    ("[[], [[1]]]", "kv-canary: req_to_token rows differ in length: row 1 has 1, row 0 has 0"),
    ("[[[1], [2]], [[3], [4, 5]]]", "kv-canary: req_to_token rows differ in length: row 3 has 2, row 0 has 1"),
    ("[[[1], [2]], [[3]]]", "kv-canary: req_to_token rows differ in length: row 1 has 1, row 0 has 2"),
    ("[[[1]], [[2], [3]], [[4, 5]]]", "kv-canary: req_to_token rows differ in length: row 1 has 2, row 0 has 1"),
    ("[[1], [2.5, 3], [4, 5]]", "kv-canary: req_to_token[1][0] must be an integer, got float"),
    ("[[1], [2, 3], [4.5]]", "kv-canary: req_to_token rows differ in length: row 1 has 2, row 0 has 1"),
    ("[[[[[[[[[1]]]]]]]]]", "req_to_token is nested deeper than 8 levels"),
    ("[" * 9, "req_to_token is nested deeper than 8 levels"),
    ("[[1], [2" + ", 3" * 30 + "]]", "kv-canary: req_to_token rows differ in length: row 1 has 31, row 0 has 1"),
]


@pytest.mark.parametrize(("text", "message"), SHAPE_FAULTS)
def test_what_is_no_rectangle_is_refused(text: str, message: str) -> None:
    assert refusal_message(batch(req_to_token=text)) == message


NAME_FAULTS = [
    (batch(window="4"), 'unknown field "window"'),
    (batch(prefix_len="[1]"), 'unknown field "prefix_len"; did you mean "prefix_lens"?'),
    (batch(**{"": "1"}), 'unknown field ""'),
    (batch(**{"a\x00\n\u00e9": "1"}), 'unknown field "a\\u0000\\n\\u00e9"'),
    (b'{"\\ud800": 1}', 'unknown field "\\ud800"'),
    ('{"é": 1}'.encode(), 'unknown field "\\u00e9"'),
    (batch(**{"x" * 65: "1"}), f'unknown field "{"x" * 64}"'),
    (batch(**{"x" * 5000: "1"}), f'unknown field "{"x" * 64}"'),
    (b'{"' + b"\\u0041" * 5000 + b'": 1}', f'unknown field "{"A" * 64}"'),
    (b'{"' + b"\\\\u" * 5000 + b'": 1}', "unknown field " + json.dumps("\\u" * 32)),
    (b'{"prefix_lens": [1], "prefix_lens": [1]}', "field prefix_lens appears more than once"),
    (b'{"prefix_lens": [1], "prefix\\u005flens": [1]}', "field prefix_lens appears more than once"),
    (b'{"prefix_lens": "x", "prefix_lens": [1]}', "field prefix_lens appears more than once"),
    (b'{"prefix_lens": [1.5], "bogus": [1]}', 'unknown field "bogus"'),
    (b'{"prefix_lens": {}, "bogus": [1]}', 'unknown field "bogus"'),
    (b"{}", "kv-canary: req_pool_indices is required"),
    (b'{"prefix_lens": [1.5], "req_to_token": [[1]]}', "kv-canary: req_pool_indices is required"),
    (b'{"req_pool_indices": null, "req_to_token": [[1]]}', "kv-canary: prefix_lens is required"),
    (b"[1]", "the body must be a JSON object, got array"),
    (b' "a"', "the body must be a JSON object, got string"),
    (b"12", "the body must be a JSON object, got integer"),
    (b"-1.5", "the body must be a JSON object, got float"),
    (b"true", "the body must be a JSON object, got bool"),
    (b"null\n", "the body must be a JSON object, got null"),
]


@pytest.mark.parametrize(("body", "message"), NAME_FAULTS)
def test_a_body_with_the_wrong_names_is_refused(body: bytes, message: str) -> None:
    assert refusal_message(body) == message


def test_fields_are_judged_in_the_order_of_the_table_not_of_the_body() -> None:
    body = b'{"req_to_token": [[0.5]], "extend_seq_lens": [1], "prefix_lens": [true], "req_pool_indices": [1]}'
    assert refusal_message(body) == "kv-canary: prefix_lens[0] must be an integer, got bool"
