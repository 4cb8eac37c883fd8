"""Bodies with objects, of some megabytes, that are meant to hurt: the right answer, without reading what follows it."""

import pytest

from service.errors import Refusal
from service.wire.json_body import decode_json_body
from tests.wire.json_bodies import NESTED_FIELDS

SIZE = 2_000_000
GROUP = b'{"lens": [1], "plan": {"lens": [2]}, "groups": {"a": '
AT = len(GROUP)
IN_A = ("groups", "a")
TOO_LONG = "pool must be Unicode text of at most 64 bytes in UTF-8"

REFUSED = [
    (GROUP + b"{" * SIZE, f"a name is missing at byte {AT + 1}", IN_A),
    (GROUP + b'{"inner":' * (SIZE // 9), 'unknown field "inner"', (*IN_A, "inner")),
    (b'{"groups":' * (SIZE // 10), 'unknown field "groups"', ("groups", "groups")),
    (GROUP + b"{}" + b"}" * SIZE, f"text follows the object at byte {AT + 4}", IN_A),
    (GROUP + b'{"n": 1' + b" }" * SIZE, f"text follows the object at byte {AT + 14}", IN_A),
    (GROUP + b'{"n": 1' + b" }" * SIZE + b', "b": {}}}', 'unknown field "b"', ()),
    (GROUP + b'{"n": 1' + b"{}" * SIZE, f"a number or a literal is misspelt at byte {AT + 7}", IN_A),
    (GROUP + b'{"n": {' + b" " * SIZE + b'}, "e": 1}}}', "n must be an integer, got object", IN_A),
    (GROUP + b"[" + b"{}," * SIZE + b"1]}}", "a must be an object, got array", ("groups",)),
    (GROUP + b'{"table": [' + b"{}," * SIZE + b"1]}}}", "table[0] must be an integer, got object", IN_A),
    (GROUP + b'{"table": [' + b'"a",' * SIZE + b"1]}}}", "table[0] must be an integer, got string", IN_A),
    (GROUP + b'{"pool": "' + b"x" * SIZE + b'"}}}', TOO_LONG, IN_A),
    (GROUP + b'{"pool": "' + b"\\n" * SIZE + b'"}}}', TOO_LONG, IN_A),
    (GROUP + b'{"pool": "' + b"\\u0061" * (SIZE // 6) + b'"}}}', TOO_LONG, IN_A),
    (GROUP + b'{"pool": "' + b"}" * SIZE, f"it ends inside a string at byte {AT + 10 + SIZE}", IN_A),
    (GROUP + b'{"n": 1,' + b'"n": 1,' * SIZE, "field n appears more than once", IN_A),
    (GROUP + b"{}" + b', "b": {}' * SIZE, "field b appears more than once", ("groups",)),
    (GROUP + b"{}" + b"".join(b', "b%d": {}' % i for i in range(SIZE // 20)), "at most 3 members", ("groups",)),
    (GROUP + b"{}" + b"," * SIZE, f"a name is missing at byte {AT + 3}", ("groups",)),
    (GROUP + b'{}, "' + b"b" * SIZE + b'": {}}}', f'got "{"b" * 64}"', ("groups",)),
    (GROUP + b'{"' + b"n" * SIZE + b'": 1}}}', f'unknown field "{"n" * 64}"', IN_A),
    (GROUP + b'"' * SIZE, "a must be an object, got string", ("groups",)),
    (GROUP + b'":' * SIZE, "a must be an object, got string", ("groups",)),
]


@pytest.mark.parametrize("case", range(len(REFUSED)))
def test_a_hostile_nested_body_is_refused_in_few_words(case: int) -> None:
    body, message, loc = REFUSED[case]
    with pytest.raises(Refusal) as fault:
        decode_json_body(body, NESTED_FIELDS)
    assert message in str(fault.value)
    assert fault.value.loc == loc
    assert len(str(fault.value).encode()) < 16 * 1024


SPACE = b" " * SIZE
ACCEPTED = [
    GROUP + b"{" + SPACE + b"}" + SPACE + b"}" + SPACE + b"}" + SPACE,
    GROUP + b'{"n": 1' + SPACE + b"}" + SPACE + b"," + SPACE + b'"b": {"n": 1}}}',
    GROUP + b'{"pool": "p"' + SPACE + b"}" + SPACE + b"}" + SPACE + b"}",
    GROUP
    + b'{"table": [['
    + b"1," * (SIZE // 2)
    + b"1]]}}"
    + SPACE
    + b', "inner": {"lens": ['
    + b"1," * SIZE
    + b"1]}}",
]


@pytest.mark.parametrize("case", range(len(ACCEPTED)))
def test_a_large_nested_body_is_decoded(case: int) -> None:
    decoded = decode_json_body(ACCEPTED[case], NESTED_FIELDS)
    assert list(decoded)[:3] == ["lens", "plan", "groups"]
