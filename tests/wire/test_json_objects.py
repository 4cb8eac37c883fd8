"""Objects in bodies, written by hand: what they decode to, and the message and the place of each refusal."""

import json
from functools import partial

import numpy as np
import pytest

from service.errors import Refusal
from service.spec import TensorSpec
from service.wire.int_array import decode_int_array
from service.wire.json_body import BodyReader, decode_any_body, decode_json_body
from service.wire.small_body import decode_small_body
from tests.wire.json_bodies import (
    EITHER_FIELDS,
    NESTED_FIELDS,
    PIECES,
    Answer,
    answers,
    nested,
    refusal_message,
    require_same,
)

GROUPS, PLAN, INNER = ("groups",), ("plan",), ("plan", "inner")


def refusal_of(body: bytes) -> tuple[str, tuple[str, ...]]:
    """The message with which every decoder refuses, and inside which objects."""
    faults = set()
    for piece in PIECES:
        with pytest.raises(Refusal) as caught:
            decode_any_body(body, NESTED_FIELDS, BodyReader(partial(decode_int_array, piece_bytes=piece)))
        faults.add((str(caught.value), caught.value.loc))
    with pytest.raises(Refusal) as caught:
        decode_json_body(body, NESTED_FIELDS)
    assert {(str(caught.value), caught.value.loc)} == faults
    return faults.pop()


def test_objects_are_decoded_at_every_depth_in_the_order_of_fields_and_of_chosen_names() -> None:
    body = b"""{"groups": {"swa": {"n": -1, "inner": {"pool": "}, ", "lens": []}}, "full": {}, "n": {"table": [[7]]}},
        "use": false, "plan": {"inner": {"lens": [2], "e": 3}, "use": true, "lens": [3, 4]}, "pool": "p", "lens": []}"""
    none = np.array([], np.int64)
    want: Answer = {
        "lens": none,
        "pool": "p",
        "use": False,
        "plan": {"lens": np.array([3, 4]), "use": True, "inner": {"lens": np.array([2]), "e": 3}},
        "groups": {
            "swa": {"n": -1, "inner": {"lens": none, "pool": "}, "}},
            "full": {},
            "n": {"table": np.array([[7]], np.int32)},
        },
    }
    for have in answers(body, NESTED_FIELDS):
        require_same(have, want)


def test_null_for_an_optional_text_switch_or_object_means_absent() -> None:
    for have in answers(
        nested(pool="null", use="null", inner="null", plan='{"lens": [2], "pool": null}'), NESTED_FIELDS
    ):
        require_same(have, {"lens": np.array([1]), "plan": {"lens": np.array([2])}, "groups": {"a": {}}})


TEXTS = [
    ('""', ""),
    ('"a\\u0062\\n\\"\\\\"', 'ab\n"\\'),
    ('"\\ud834\\udd1e"', "𝄞"),
    ('"' + "\\u0061" * 64 + '"', "a" * 64),
    ('"' + "é" * 32 + '"', "é" * 32),
    ('"null"', "null"),
    ('"12"', "12"),
    ('"}}, "', "}}, "),
    ('"{\\"n\\": 1}"', '{"n": 1}'),
]


@pytest.mark.parametrize(("text", "want"), TEXTS)
def test_a_text_is_what_its_string_spells(text: str, want: str) -> None:
    for have in answers(nested(pool=text), NESTED_FIELDS):
        assert not isinstance(have, str)
        assert have["pool"] == want


TOO_LONG = "kv-canary: pool must be Unicode text of at most 64 bytes in UTF-8"
VALUE_FAULTS = [
    (nested(pool="7"), "kv-canary: pool must be a string, got integer", ()),
    (nested(pool="true"), "kv-canary: pool must be a string, got bool", ()),
    (nested(pool="[]"), "kv-canary: pool must be a string, got array", ()),
    (nested(pool='["a", "b"]'), "kv-canary: pool must be a string, got array", ()),
    (nested(plan='{"lens": [], "pool": {}}'), "kv-canary: pool must be a string, got object", PLAN),
    (nested(pool=f'"{"x" * 65}"'), TOO_LONG, ()),
    (nested(pool=f'"{"é" * 33}"'), TOO_LONG, ()),
    (nested(pool=f'"{"x" * 5000}"'), TOO_LONG, ()),
    (nested(pool='"\\ud800"'), TOO_LONG, ()),
    (nested(pool='"\\udd1e\\ud834"'), TOO_LONG, ()),
    (nested(use="0"), "kv-canary: use must be true or false, got integer", ()),
    (nested(use='"true"'), "kv-canary: use must be true or false, got string", ()),
    (nested(groups='{"a": {"use": 1.0}}'), "kv-canary: use must be true or false, got float", ("groups", "a")),
    (nested(n="true"), "kv-canary: n must be an integer, got bool", ()),
    (nested(inner="[]"), "kv-canary: inner must be an object, got array", ()),
    (nested(inner='[{"n": 1}, "b"]'), "kv-canary: inner must be an object, got array", ()),
    (nested(plan="null"), "kv-canary: plan must be an object, got null", ()),
    (nested(plan='"{}"'), "kv-canary: plan must be an object, got string", ()),
    (nested(groups="null"), "kv-canary: groups must be an object, got null", ()),
    (nested(groups="1"), "kv-canary: groups must be an object, got integer", ()),
    (nested(groups='{"a": {}, "b": null}'), "kv-canary: b must be an object, got null", GROUPS),
    (nested(groups='{"b": 1.5, "a": []}'), "kv-canary: b must be an object, got float", GROUPS),
    (nested(groups='{"a": {"inner": null}, "b": true}'), "kv-canary: b must be an object, got bool", GROUPS),
    (nested(groups="{}"), "kv-canary: groups must have at least one member", GROUPS),
    (nested(plan='{"n": {}, "lens": [1]}'), "kv-canary: n must be an integer, got object", PLAN),
    (nested(plan='{"lens": { }, "inner": {"lens": []}}'), "kv-canary: lens must be an integer, got object", PLAN),
    (nested(plan='{"lens": [{}], "n": 1}'), "kv-canary: lens[0] must be an integer, got object", PLAN),
    (nested(plan='{"lens": ["b", "c"]}', n="1.5"), "kv-canary: n must be an integer, got float", ()),
    (nested(plan='{"lens": [1], "inner": {"lens": [2.5]}}'), "kv-canary: lens[0] must be an integer, got float", INNER),
    (nested(plan='{"inner": {"lens": {"a": {}}, "b": {}}}'), "kv-canary: lens must be an integer, got object", INNER),
    (nested(plan='{"lens": 99999999999999999999}'), "kv-canary: lens value 99999999999999999999 does not fit", PLAN),
    (nested(plan='{"lens": [], "table": [[1], []]}'), "kv-canary: table rows differ in length: row 1 has 0", PLAN),
]


@pytest.mark.parametrize(("body", "message", "loc"), VALUE_FAULTS)
def test_a_value_that_no_field_holds_is_named_with_its_objects(body: bytes, message: str, loc: tuple[str, ...]) -> None:
    have, have_loc = refusal_of(body)
    assert have.startswith(message)
    assert have_loc == loc


RULE = "kv-canary: groups members must have names of 1 to 64 letters, digits, _, . and -, beginning with a letter, got "
NAME_FAULTS = [
    (nested(plan='{"lens": [], "len": 1}'), 'unknown field "len"; did you mean "lens"?', PLAN),
    (nested(plan='{"lens": [], "inner": {"lens": [], "table": 1}}'), 'unknown field "table"', INNER),
    (nested(plan='{"n": 1, "lens": [], "n": 1}'), "field n appears more than once", PLAN),
    (nested(plan='{"inner": {"lens": []}, "inner": {"lens": []}}'), "field inner appears more than once", PLAN),
    (nested(groups='{"a": {}, "b": {}, "a": {}}'), "field a appears more than once", GROUPS),
    (nested(groups='{"a": {}, "\\u0061": {}}'), "field a appears more than once", GROUPS),
    (nested(groups='{"a": {}, "b": {}, "c": {}, "d": {}}'), "kv-canary: groups must have at most 3 members", GROUPS),
    (nested(groups='{"a": 1, "b": 2, "c": 3, "d": 4}'), "kv-canary: groups must have at most 3 members", GROUPS),
    (nested(plan="{}"), "kv-canary: lens is required", PLAN),
    (nested(plan='{"lens": [], "inner": {}}'), "kv-canary: lens is required", INNER),
    (nested(groups='{"a": {"inner": {}}}'), "kv-canary: lens is required", ("groups", "a", "inner")),
    (b'{"plan": {"lens": []}, "lens": []}', "kv-canary: groups is required", ()),
    (b'{"groups": {"a": {}}, "lens": []}', "kv-canary: plan is required", ()),
    (b'{"plan": {}, "lens": []}', "kv-canary: groups is required", ()),
    (nested(groups='{"a": {"x": 1}}', lens="[1.5]"), 'unknown field "x"', ("groups", "a")),
    (nested(groups='{"a": {"n": 1.5}}', plan="{}"), "kv-canary: lens is required", PLAN),
    *(
        (nested(groups=f"{{{json.dumps(name)}: {{}}}}"), RULE + json.dumps(name[:64]), GROUPS)
        for name in ("", "0", "-a", ".", "_a", "a b", "a/b", "é", "aé", "a\n", "a" * 65, "a" * 5000, "a\u0660")
    ),
]


@pytest.mark.parametrize(("body", "message", "loc"), NAME_FAULTS)
def test_an_object_with_the_wrong_names_is_refused(body: bytes, message: str, loc: tuple[str, ...]) -> None:
    assert refusal_of(body) == (message, loc)


HEAD = b'{"lens": [], "groups": {"a": {}}, "plan": {"lens": [], "n": '
AT = len(HEAD)
TEXT_FAULTS = [
    (b"1}", "it ends inside the object", 2),
    (b"1", "it ends inside the object", 1),
    (b"1} }x", "text follows the object", 4),
    (b"1}}}", "text follows the object", 3),
    (b"1]}}", "a comma or a closing brace is missing", 1),
    (b"1,}}", "a name is missing", 2),
    (b"1},}", "a name is missing", 3),
    (b'1} "n": 1}', "a comma is missing", 3),
    (b'1 } } "n": 1}', "a comma is missing", 4),
    (b'1}}, "n": 1}', "a comma is missing", 2),
    (b'1,}, "n": 1}', "a name is missing", 2),
    (b'1, "inner": {"lens": []', "it ends inside the object", 23),
    (b'1, "inner": {,}}}', "a name is missing", 13),
    (b'1, "inner": {"lens" []}}}', "a colon is missing", 20),
    (b'}, "n": 1}', "a value is missing", 0),
    (b'1, "pool": "a" "n": 1}}', "a comma is missing", 15),
    (b'1, "pool": "\xff"}}', "a string is not UTF-8", 12),
    (b'1, "use": truly}}', "a value is misspelt", 10),
]


@pytest.mark.parametrize(("text", "reason", "offset"), TEXT_FAULTS)
def test_an_object_that_is_not_json_is_refused(text: bytes, reason: str, offset: int) -> None:
    assert refusal_of(HEAD + text)[0] == f"the body is not valid JSON: {reason} at byte {AT + offset}"


EMPTY_FAULTS = [
    (b"", "it ends inside the object", 0),
    (b"}", "it ends inside the object", 1),
    (b"}}x", "text follows the object", 2),
    (b"} x}", "a comma or a closing brace is missing", 2),
    (b"}, }", "a name is missing", 3),
    (b"},", "it ends inside the object", 2),
    (b'} "n": 1}', "a comma or a closing brace is missing", 2),
]


@pytest.mark.parametrize(("text", "reason", "offset"), EMPTY_FAULTS)
def test_text_after_an_empty_object_is_judged(text: bytes, reason: str, offset: int) -> None:
    head = b'{"lens": [], "plan": {"lens": []}, "groups": {"a": {}'
    assert refusal_of(head + text)[0] == f"the body is not valid JSON: {reason} at byte {len(head) + offset}"


def test_a_nested_body_that_is_cut_anywhere_is_not_json() -> None:
    body = nested(pool='"p"', plan='{"lens": [1], "inner": {"lens": []}}', groups='{"a": {"use": true}, "b": {}}')
    for length in range(len(body)):
        message, _ = refusal_of(body[:length])
        assert message.startswith("the body is not valid JSON: "), body[:length]


def test_what_was_seen_in_objects_before_the_text_breaks_off_is_judged_first() -> None:
    body = b'{"plan": {"n": 1.5, "inner": {"pool": 7}}, "groups": {"a": {}, "b'
    assert refusal_of(body) == ("kv-canary: lens is required", PLAN)
    body = b'{"plan": {"lens": [], "inner": {"pool": 7, "e'
    assert refusal_of(body) == ("kv-canary: pool must be a string, got integer", INNER)


def test_text_that_breaks_off_is_told_with_its_objects() -> None:
    assert refusal_of(b'{"groups": {"a": {"n": 1')[1] == ("groups", "a")


PLAIN = nested(
    pool='"p-1"', use="true", groups='{"n": {"true": 1, "use": false}, "null": {"n": null}, "x-2": {"pool": "12"}}'
)


def test_a_plain_small_body_with_objects_takes_the_quick_way_to_the_same_answer() -> None:
    quick = decode_small_body(PLAIN, NESTED_FIELDS)
    assert quick is not None
    require_same(quick, decode_any_body(PLAIN, NESTED_FIELDS))


ODD = [
    nested(groups='{"a": {"n": 1, "n": 1}}'),
    nested(groups='{"a": {}, "a": {}}'),
    nested(groups='{"a": {"pool": "n"}, "a": {"n": 1}}'),
    nested(groups='{"n": 1, "n": {}}'),
    nested(lens="[true]"),
    nested(lens="[true]", true="1"),
    nested(lens="[null]", pool='"null"'),
    nested(lens='["1"]'),
    nested(lens="[1.0]"),
    nested(n='"1"'),
    nested(n="true"),
    nested(use='"true"'),
    nested(use="1"),
    nested(pool="true"),
    nested(pool='"' + "1" * 65 + '"'),
    nested(plan="[]"),
    nested(plan="null"),
    nested(plan='{"lens": [], "0": 1}'),
    nested(groups="{}"),
    nested(groups="[]"),
    nested(groups='{"0": {}}'),
    nested(groups='{"a": {}, "b": {}, "c": {}, "d": {}}'),
]


@pytest.mark.parametrize("body", ODD)
def test_the_quick_way_is_closed_to_what_must_be_refused(body: bytes) -> None:
    assert decode_small_body(body, NESTED_FIELDS) is None
    refusal_of(body)


EITHER = [
    (b'{"pool": "p"}', {"pool": "p"}),
    (b'{"lens": null, "pool": "p"}', {"pool": "p"}),
    (b'{"lens": [1]}', {"lens": np.array([1])}),
    (b'{"pool": "p", "lens": [1]}', {"lens": np.array([1]), "pool": "p"}),
]


@pytest.mark.parametrize(("body", "want"), EITHER)
def test_a_required_field_can_be_replaced_by_another(body: bytes, want: Answer) -> None:
    for have in answers(body, EITHER_FIELDS):
        require_same(have, want)


def test_a_required_field_that_nothing_replaces_is_missing() -> None:
    assert refusal_message(b'{"use": true}', EITHER_FIELDS) == "kv-canary: lens is required"
    assert refusal_message(b'{"lens": null}', EITHER_FIELDS) == "kv-canary: lens must be an integer, got null"


def test_an_object_where_none_is_a_field_is_not_read() -> None:
    fields = [TensorSpec("lens", ("n",), "int64", "")]
    with pytest.raises(Refusal, match=r"^kv-canary: lens must be an integer, got object$") as caught:
        decode_any_body(b'{"lens": {"lens": [1], "lens": [1]}}', fields)
    assert caught.value.loc == ()
