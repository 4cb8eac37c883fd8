"""Texts that are not JSON, written by hand: the phrase and the byte of each refusal."""

import pytest

from service.errors import Refusal
from service.spec import TensorSpec
from service.wire.json_body import decode_any_body
from tests.wire.json_bodies import batch, refusal_message

HEAD = b'{"req_pool_indices": [1], "extend_seq_lens": [1], "req_to_token": [[0], [5]], "prefix_lens": '
AT = len(HEAD)

BODY_FAULTS = [
    (b"", "it is empty", 0),
    (b" \n\t\r", "it is empty", 4),
    (b"\xef\xbb\xbf{}", "it begins with a byte order mark", 0),
    (b"x", "a value is misspelt", 0),
    (b"nul", "a value is misspelt", 0),
    (b"]", "a value is missing", 0),
    (b"NaN", "NaN and Infinity are not JSON", 0),
    (b"\x00{}", "a value is misspelt", 0),
    (b"\x0b{}", "a value is misspelt", 0),
    (b"{", "it ends inside the object", 1),
    (b"{ ", "it ends inside the object", 2),
    (b"{,}", "a name is missing", 1),
    (b"{1: 2}", "a name is missing", 1),
    (b"{} {}", "text follows the object", 3),
    (b"{}x", "text follows the object", 2),
    (b'{"prefix_lens"', "a colon is missing", 14),
    (b'{"prefix_lens" 1}', "a colon is missing", 15),
    (b'{"prefix', "it ends inside a string", 8),
    (b'{"a\nb": 1}', "a string has a control character", 3),
    (b'{"a\\x": 1}', "a string has a bad escape", 3),
    (b'{"a\\u12g4": 1}', "a string has a bad escape", 3),
    (b'{"a\\u12": 1}', "a string has a bad escape", 3),
    (b'{"a\\', "a string has a bad escape", 3),
    (b'{"a\xff": 1}', "a string is not UTF-8", 3),
    (b'{"\xc0\xaf": 1}', "a string is not UTF-8", 2),
    (b'{"\xed\xa0\x80": 1}', "a string is not UTF-8", 2),
]


@pytest.mark.parametrize(("body", "reason", "position"), BODY_FAULTS)
def test_a_body_that_is_not_json_is_refused(body: bytes, reason: str, position: int) -> None:
    assert refusal_message(body) == f"the body is not valid JSON: {reason} at byte {position}"


VALUE_FAULTS = [
    (b"", "it ends where a value belongs", 0),
    (b"}", "a value is missing", 0),
    (b",}", "a value is missing", 0),
    (b"NaN}", "NaN and Infinity are not JSON", 0),
    (b"-Infinity}", "NaN and Infinity are not JSON", 0),
    (b"+1}", "a value is misspelt", 0),
    (b".5}", "a value is misspelt", 0),
    (b"1.}", "a number lacks a digit", 2),
    (b"1e}", "a number lacks a digit", 2),
    (b"1e+}", "a number lacks a digit", 3),
    (b"01}", "a number or a literal is misspelt", 1),
    (b"-01}", "a number or a literal is misspelt", 2),
    (b"1x}", "a number or a literal is misspelt", 1),
    (b"nullx}", "a number or a literal is misspelt", 4),
    (b"trueish}", "a number or a literal is misspelt", 4),
    (b"1", "it ends inside the object", 1),
    (b"1,}", "a name is missing", 2),
    (b"1, }", "a name is missing", 3),
    (b"1 2}", "a comma or a closing brace is missing", 2),
    (b"1]}", "a comma or a closing brace is missing", 1),
    (b"1}}", "text follows the object", 2),
    (b'1}{"prefix_lens": 2}', "a comma is missing", 1),
    (b'1 "verify_capacity": 2}', "a comma is missing", 2),
    (b'1,, "verify_capacity": 2}', "a name is missing", 2),
    (b'1, "\x01": 2}', "a string has a control character", 4),
    (b'1, "a" 2}', "a colon is missing", 7),
    (b'"abc', "it ends inside a string", 4),
    (b"[1", "it ends inside an array", 2),
    (b"[", "it ends inside an array", 1),
    (b"[1,", "it ends inside an array", 3),
    (b"[1, ]}", "a value is missing", 4),
    (b"[,1]}", "a value is missing", 1),
    (b"[1,,2]}", "a value is missing", 3),
    (b"[1 2]}", "a comma or a closing bracket is missing", 3),
    (b"[1}", "a comma or a closing bracket is missing", 2),
    (b"[1 }", "a comma or a closing bracket is missing", 3),
    (b"[[1] [2]]}", "a comma or a closing bracket is missing", 5),
    (b'[1 "a"]}', "a comma or a closing bracket is missing", 3),
    (b"[1[2]]}", "a comma or a closing bracket is missing", 2),
    (b"[1]]}", "a comma or a closing brace is missing", 3),
    (b"[01]}", "a number or a literal is misspelt", 2),
    (b"[-01]}", "a number or a literal is misspelt", 3),
    (b"[00]}", "a number or a literal is misspelt", 2),
    (b"[1-2]}", "a number or a literal is misspelt", 2),
    (b"[1-]}", "a number or a literal is misspelt", 2),
    (b"[--1]}", "a value is misspelt", 1),
    (b"[-]}", "a value is misspelt", 1),
    (b"[- 1]}", "a value is misspelt", 1),
    (b"[+1]}", "a value is misspelt", 1),
    (b"[.5]}", "a value is misspelt", 1),
    (b"[1.]}", "a number lacks a digit", 3),
    (b"[NaN]}", "NaN and Infinity are not JSON", 1),
    (b"[1\x0b]}", "a number or a literal is misspelt", 2),
    (b"[1,\x002]}", "a value is misspelt", 3),
    (b"[1,\xa02]}", "a value is misspelt", 3),
    (b"[tru]}", "a value is misspelt", 1),
    (b"[1,}", "a value is missing", 3),
    (b"[" + b"1" * 30 + b"-1]}", "a number or a literal is misspelt", 31),
    (b"[" + b"0" * 90 + b"]}", "a number or a literal is misspelt", 2),
]


@pytest.mark.parametrize(("text", "reason", "offset"), VALUE_FAULTS)
def test_a_value_that_is_not_json_is_refused(text: bytes, reason: str, offset: int) -> None:
    assert refusal_message(HEAD + text) == f"the body is not valid JSON: {reason} at byte {AT + offset}"


def test_a_body_that_is_cut_anywhere_is_not_json() -> None:
    body = batch(prefix_lens="[[10, -11], [12, 13]]", verify_capacity="14")
    for length in range(len(body)):
        assert refusal_message(body[:length]).startswith("the body is not valid JSON: "), body[:length]


def test_what_was_seen_before_the_text_breaks_off_is_judged_first() -> None:
    assert refusal_message(b'{"prefix_lens": [1, 2.5], "req_to') == (
        "kv-canary: prefix_lens[1] must be an integer, got float"
    )


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
@pytest.mark.parametrize("late", ['["b"]', '[[1], "b", 2]', '["' + "x" * 2000 + '", "y"]'])
def test_a_string_in_an_array_does_not_hide_the_fault_of_an_earlier_field(order: tuple[int, int], late: str) -> None:
    fields = [TensorSpec("first", ("n",), "int64", ""), TensorSpec("second", ("n",), "int64", "")]
    members = ['"first": [1.5]', f'"second": {late}']
    body = "{" + ", ".join(members[i] for i in order) + "}"
    with pytest.raises(Refusal, match=r"^kv-canary: first\[0\] must be an integer, got float$"):
        decode_any_body(body.encode(), fields)
