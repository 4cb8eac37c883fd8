"""Bodies that are no single JSON object of known fields get a 4xx problem that does not repeat them."""

import json

import pytest

from tests.problems import require_problem, require_refused
from tests.running import GOOD_REQUEST, InProcess

GOOD = json.dumps(GOOD_REQUEST).encode()
REST = GOOD[1:]
"""The members of a good body and its closing brace, without the opening one."""
DEEP = 100_000

MALFORMED = {
    "empty": b"",
    "only white space": b" \n\t\r ",
    "a byte order mark": b"\xef\xbb\xbf" + GOOD,
    "UTF-16": GOOD.decode().encode("utf-16"),
    "UTF-32": GOOD.decode().encode("utf-32-le"),
    "invalid UTF-8 in a name": b'{"\xff": 1, ' + REST,
    "an overlong UTF-8 name": b'{"\xc0\xaf": 1, ' + REST,
    "a CESU surrogate in a name": b'{"\xed\xa0\x80": 1, ' + REST,
    "two bodies": GOOD + GOOD,
    "two bodies on two lines": GOOD + b"\n" + GOOD,
    "trailing bytes": GOOD + b"x",
    "a trailing zero byte": GOOD + b"\0",
    "a trailing brace": GOOD + b"}",
    "a leading zero byte": b"\0" + GOOD,
    "no beginning": GOOD[2:],
    "a trailing comma": GOOD[:-1] + b",}",
    "no comma": b'{"swa_window_size": 0 ' + REST,
    "no colon": b'{"swa_window_size" 0, ' + REST,
    "no value": b'{"swa_window_size": , ' + REST,
    "a bare name": b"{swa_window_size: 0, " + REST,
    "single quotes": GOOD.replace(b'"', b"'"),
    "a comment": b'{/* no */ "swa_window_size": 0, ' + REST,
    "NaN": b'{"swa_window_size": NaN, ' + REST,
    "Infinity": b'{"swa_window_size": Infinity, ' + REST,
    "minus Infinity": b'{"swa_window_size": -Infinity, ' + REST,
    "NaN in an array": GOOD.replace(b"[2]", b"[NaN]"),
    "Infinity in a table": GOOD.replace(b"[5, 6, 7]", b"[5, Infinity, 7]"),
    "a leading zero": b'{"swa_window_size": 01, ' + REST,
    "a leading plus": b'{"swa_window_size": +1, ' + REST,
    "hexadecimal": b'{"swa_window_size": 0x1, ' + REST,
    "a bare minus": b'{"swa_window_size": -, ' + REST,
    "a fraction without digits": b'{"swa_window_size": 1., ' + REST,
    "a literal misspelt": b'{"swa_window_size": True, ' + REST,
    "a trailing comma in an array": GOOD.replace(b"[2]", b"[2,]"),
    "an array that is not closed": GOOD[:-2] + b"}",
    "a full-width digit": GOOD.replace(b"[2]", "[\uff12]".encode()),
    "a control character in a name": b'{"a\x01b": 1, ' + REST,
    "a bad escape in a name": b'{"a\\x": 1, ' + REST,
    "a multipart body": b"--x\r\ncontent-disposition: form-data; name=f\r\n\r\n" + GOOD + b"\r\n--x--",
    "gzip": b"\x1f\x8b\x08\x00\x00\x00\x00\x00",
}


@pytest.mark.parametrize("body", MALFORMED.values(), ids=MALFORMED)
def test_what_is_not_json_is_refused(service: InProcess, body: bytes) -> None:
    response = service.post_plan(body, **{"content-type": "application/json"})
    require_refused(service, response, "malformed-json")
    assert response.status_code == 400


@pytest.mark.parametrize("cut", range(len(GOOD)))
def test_a_body_cut_anywhere_is_refused(service: InProcess, cut: int) -> None:
    require_refused(service, service.post_plan(GOOD[:cut]), "malformed-json")


@pytest.mark.parametrize("body", ["[]", "[1, 2]", "1", '"a"', "true", "null", "1.5", json.dumps([GOOD_REQUEST])])
def test_json_that_is_no_object_is_refused(service: InProcess, body: str) -> None:
    require_refused(service, service.post_plan(body), "body-not-object")


@pytest.mark.parametrize("name", GOOD_REQUEST)
def test_a_missing_field_is_named(service: InProcess, name: str) -> None:
    request = {key: value for key, value in GOOD_REQUEST.items() if key != name}
    assert require_refused(service, service.post("/plan", json=request), "missing-field") == (
        f"kv-canary: {name} is required"
    )


def test_an_empty_object_lacks_the_first_field(service: InProcess) -> None:
    detail = require_refused(service, service.post_plan("{}"), "missing-field")
    assert detail == "kv-canary: req_pool_indices is required"


@pytest.mark.parametrize(
    "extra", ['"prefix_lens": [2]', '"prefix_lens": [9]', '"prefix\\u005flens": [2]', '"req_to_token": "x"']
)
def test_a_field_given_twice_is_refused_even_with_equal_values(service: InProcess, extra: str) -> None:
    require_refused(service, service.post_plan(b"{" + extra.encode() + b", " + REST), "duplicate-field")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("prefix_len", 'unknown field "prefix_len"; did you mean "prefix_lens"?'),
        ("PREFIX_LENS", 'unknown field "PREFIX_LENS"'),
        ("", 'unknown field ""'),
        ("__proto__", 'unknown field "__proto__"'),
        ("{name}", 'unknown field "{name}"'),
        ("a\x00b", 'unknown field "a\\u0000b"'),
        ("<script>", 'unknown field "<script>"'),
    ],
)
def test_an_unknown_field_is_named_and_the_likely_one_suggested(service: InProcess, name: str, words: str) -> None:
    detail = require_refused(service, service.post("/plan", json=GOOD_REQUEST | {name: 1}), "unknown-field")
    assert detail.startswith(words)


@pytest.mark.parametrize("name", ["\\ud800", "\\udfff\\ud800", "\\u0000"])
def test_an_unknown_field_with_odd_escapes_is_refused(service: InProcess, name: str) -> None:
    require_refused(service, service.post_plan(b'{"' + name.encode() + b'": 1, ' + REST), "unknown-field")


@pytest.mark.parametrize("marker", ["Zq7marker" * 10_000, "\u00e9" * 100_000, "\\n" * 100_000])
def test_a_long_name_is_not_echoed(service: InProcess, marker: str) -> None:
    response = service.post_plan(f'{{"{marker}": 1, '.encode() + REST)
    require_refused(service, response, "unknown-field", "malformed-json")
    assert len(response.content) < 2048


@pytest.mark.parametrize("place", ['{"prefix_lens": @, ', '{"swa_window_size": @, ', "@"])
@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}"), ("[", ""), ('[{"a":', "")])
def test_deep_nesting_is_refused(service: InProcess, place: str, opening: str, closing: str) -> None:
    nested = opening * DEEP + "1" + closing * DEEP
    response = service.post_plan(place.replace("@", nested) + ("" if place == "@" else REST.decode()))
    require_refused(
        service,
        response,
        "nesting-too-deep",
        "not-an-integer",
        "body-not-object",
        "malformed-json",
        "unknown-field",
        "duplicate-field",
    )


@pytest.mark.parametrize("secret", ["Zq7secret", "\u00e9\u00e9Zq7secret", "Zq7secret" * 1000])
def test_values_are_not_echoed(service: InProcess, secret: str) -> None:
    for name in (*GOOD_REQUEST, "swa_window_size", "verify_capacity"):
        for value in (secret, [secret], [[secret]], {secret: 1}):
            response = service.post("/plan", json=GOOD_REQUEST | {name: value})
            require_problem(response, "not-an-integer", "unknown-field", "malformed-json", "duplicate-field")
            assert "Zq7secret" not in response.text or response.json()["code"] == "unknown-field"


@pytest.mark.parametrize("padding", [b" " * 200_000, b"\n\t" * 100_000])
def test_white_space_around_and_within_a_body_is_no_fault(service: InProcess, padding: bytes) -> None:
    spread = padding + GOOD.replace(b", ", b"," + padding) + padding
    assert service.post_plan(spread).json()["verify_slot_indices"] == [5, 6]
