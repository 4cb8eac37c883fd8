"""Bodies of some megabytes that are meant to hurt: the right answer, in few words, without recursion."""

import numpy as np
import pytest

from service.errors import Refusal
from service.spec import PLAN_INPUTS
from service.wire.json_body import decode_json_body
from service.wire.json_token import STEP_BYTES, read_value

SIZE = 3_000_000
TABLE = b'{"req_pool_indices": [], "prefix_lens": [], "extend_seq_lens": [], "req_to_token": '
AT = len(TABLE)

REFUSED = [
    (TABLE + b"[" * SIZE, "req_to_token is nested deeper than 8 levels"),
    (b"[" * SIZE, "the body must be a JSON object, got array"),
    (b'{"a":' * 100_000, 'unknown field "a"'),
    (b'{"prefix_lens":' * 100_000, "kv-canary: prefix_lens must be an integer, got object"),
    (
        TABLE + b"[" + b"1" * SIZE + b"]}",
        f"kv-canary: req_to_token[0] value 111111111…({SIZE} digits) does not fit torch.int32",
    ),
    (
        TABLE + b"-" + b"1" * SIZE + b"}",
        f"kv-canary: req_to_token value -111111111…({SIZE} digits) does not fit torch.int32",
    ),
    (TABLE + b"[1." + b"1" * SIZE + b"]}", "kv-canary: req_to_token[0] must be an integer, got float"),
    (TABLE + b"[1, " + b"0" * SIZE + b"]}", f"a number or a literal is misspelt at byte {AT + 5}"),
    (TABLE + b"[" + b"-" * SIZE + b"]}", f"a value is misspelt at byte {AT + 1}"),
    (TABLE + b"[" + b"," * SIZE + b"]}", f"a value is missing at byte {AT + 1}"),
    (TABLE + b"[1" + b" " * SIZE + b"1]}", f"a comma or a closing bracket is missing at byte {AT + 2 + SIZE}"),
    (TABLE + b"[" + b'"a",' * SIZE + b'"a"]}', "kv-canary: req_to_token[0] must be an integer, got string"),
    (TABLE + b"[" + b'{"a": 1},' * SIZE + b"1]}", "kv-canary: req_to_token[0] must be an integer, got object"),
    (TABLE + b'"' + b"x" * SIZE + b'"}', "kv-canary: req_to_token must be an integer, got string"),
    (TABLE + b'"' + b"ab\\n\\u1234" * (SIZE // 10) + b'"}', "kv-canary: req_to_token must be an integer, got string"),
    (TABLE + b'"' + b"\\n" * SIZE, f"it ends inside a string at byte {AT + 1 + 2 * SIZE}"),
    (b'{"' + b"x" * SIZE + b'": 1}', f'unknown field "{"x" * 64}"'),
    (b'{"' + b"\\\\" * SIZE + b'" 1}', f"a colon is missing at byte {2 * SIZE + 4}"),
    (b" " * SIZE, f"it is empty at byte {SIZE}"),
    (b"\x00" * SIZE, "a value is misspelt at byte 0"),
    (TABLE + b"[]" + b"\n" * SIZE, "it ends inside the object"),
    (TABLE + b"[]" + b"}" * SIZE, f"text follows the object at byte {AT + 3}"),
    (TABLE + b"[" + b"[1,2]," * (SIZE // 6) + b"[1]]}", f"row {SIZE // 6} has 1, row 0 has 2"),
    (
        TABLE + b"[" + b"[1,2]," * (SIZE // 6) + b"[1,1.5]]}",
        f"req_to_token[{SIZE // 6}][1] must be an integer, got float",
    ),
    (TABLE + b"[" + b"[1]," * (SIZE // 4) + b"1]}", f"req_to_token[{SIZE // 4}] must be an array, got integer"),
    (TABLE + b"[" + b"1," * (SIZE // 2) + b"[]]}", f"req_to_token[{SIZE // 2}] must be an integer, got array"),
]


@pytest.mark.parametrize("case", range(len(REFUSED)))
def test_a_hostile_body_is_refused_in_few_words(case: int) -> None:
    body, message = REFUSED[case]
    with pytest.raises(Refusal) as fault:
        decode_json_body(body, PLAN_INPUTS)
    assert message in str(fault.value)
    assert len(str(fault.value).encode()) < 16 * 1024


ACCEPTED = [
    (TABLE + b"[" + b" " * SIZE + b"]}", (0, 0)),
    (TABLE + b"[[1]]" + b" " * SIZE + b"}", (1, 1)),
    (b" " * SIZE + TABLE + b"[[1]]}" + b"\n" * SIZE, (1, 1)),
    (TABLE[:-16] + b" " * SIZE + TABLE[-16:] + b"[[1]]}", (1, 1)),
    (b'{"req_to_token": [[1]], ' + b" " * SIZE + TABLE[1:-18] + b"}", (1, 1)),
    (TABLE + b"[" + b"[1]," * (SIZE // 4) + b"[1]]}", (SIZE // 4 + 1, 1)),
    (TABLE + b"[" + b"[]," * (SIZE // 3) + b"[]]}", (SIZE // 3 + 1, 0)),
    (TABLE + b"[[" + b"1," * (SIZE // 2) + b"1]]}", (1, SIZE // 2 + 1)),
    (TABLE + b"[" + b"[[[[[[[1]]]]]]]," * (SIZE // 16) + b"[[[[[[[1]]]]]]]]}", (SIZE // 16 + 1, *[1] * 7)),
]


@pytest.mark.parametrize("case", range(len(ACCEPTED)))
def test_a_large_odd_body_is_decoded(case: int) -> None:
    body, shape = ACCEPTED[case]
    table = decode_json_body(body, PLAN_INPUTS)["req_to_token"]
    assert isinstance(table, np.ndarray)
    assert table.shape == shape
    assert (table == 1).all()


def test_a_large_table_keeps_every_value() -> None:
    values = np.random.default_rng(7).integers(-(2**31), 2**31, 400_000)
    text = ", ".join(map(str, values.tolist())).encode()
    table = decode_json_body(TABLE + b"[[" + text + b"]]}", PLAN_INPUTS)["req_to_token"]
    np.testing.assert_array_equal(table, values[None])


@pytest.mark.parametrize("digits", [1, 31, 32, 33, 34, 32 + STEP_BYTES, 33 + STEP_BYTES, 34 + STEP_BYTES])
@pytest.mark.parametrize("follows", [b"", b"]", b".5", b"e+1", b" "])
def test_a_number_of_any_length_ends_where_its_digits_do(digits: int, follows: bytes) -> None:
    for sign in (b"", b"-"):
        text = sign + b"7" * digits + follows
        token = read_value(text, 0)
        is_integer = follows[:1] in (b"", b"]", b" ")
        assert token.kind == ("integer" if is_integer else "float")
        assert token.stop == len(text) - (len(follows) if is_integer else 0)
