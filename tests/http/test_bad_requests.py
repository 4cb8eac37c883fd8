"""Requests that are wrong around the body: media types, sizes, methods, paths, ids."""

import json
from collections.abc import AsyncIterator

import pytest

from tests.problems import require_good_plan, require_problem, require_refused
from tests.running import GOOD_REQUEST, InProcess, host_app, in_process

GOOD = json.dumps(GOOD_REQUEST).encode()
POST_PATHS = ("/plan", "/plan/offsets")
GET_PATHS = ("/livez", "/readyz", "/info", "/errors", "/errors/not-found", "/openapi.json", "/docs")


@pytest.mark.parametrize(
    "content_type",
    [
        "application/octet-stream",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "text/plain",
        "text/json",
        "application/jsonl",
        "application/x-ndjson",
        "application/json; charset=utf-16",
        "application/json; charset*=latin-1''utf-8",
        "application",
        "*/*",
        "",
        "application/json, text/plain",
        "x" * 5000,
    ],
)
@pytest.mark.parametrize("path", POST_PATHS)
def test_a_body_said_to_be_something_else_is_refused(service: InProcess, path: str, content_type: str) -> None:
    response = service.post(path, content=GOOD, headers={"content-type": content_type})
    detail = require_refused(service, response, "unsupported-media-type")
    assert response.status_code == 415
    assert len(detail) < 200


@pytest.mark.parametrize(
    "content_type",
    [
        "application/json",
        "Application/JSON",
        "application/json; charset=utf-8",
        'application/json;charset="UTF-8"',
        "application/vnd.kv+json",
    ],
)
def test_json_by_any_of_its_names_is_read(service: InProcess, content_type: str) -> None:
    assert service.post_plan(GOOD, **{"content-type": content_type}).status_code == 200


def test_a_body_without_a_content_type_is_read_as_json(service: InProcess) -> None:
    response = service.post_plan(GOOD)
    assert "content-type" not in response.request.headers
    assert response.status_code == 200


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "zstd", "identity, gzip", "GZIP", "\xe9"])
def test_a_compressed_body_is_refused(service: InProcess, encoding: str) -> None:
    response = service.post("/plan", content=GOOD, headers=[(b"content-encoding", encoding.encode("latin-1"))])
    require_refused(service, response, "unsupported-content-encoding")
    assert response.status_code == 415


@pytest.mark.parametrize("encoding", ["identity", "Identity ", ""])
def test_a_body_said_to_be_plain_is_read(service: InProcess, encoding: str) -> None:
    assert service.post_plan(GOOD, **{"content-encoding": encoding}).status_code == 200


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW"])
@pytest.mark.parametrize("path", POST_PATHS)
def test_a_plan_route_takes_post_alone(service: InProcess, path: str, method: str) -> None:
    response = service.request(method, path)
    assert response.status_code == 405
    assert response.headers["allow"] == "POST"
    if method == "HEAD":
        assert response.headers["x-request-id"]
        assert response.content == b""
    else:
        require_refused(service, response, "method-not-allowed")


@pytest.mark.parametrize("path", GET_PATHS)
def test_a_page_takes_no_post(service: InProcess, path: str) -> None:
    require_refused(service, service.post(path, json={}), "method-not-allowed")


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/nothing",
        "/plan/",
        "/plan/offsets/",
        "//plan",
        "/PLAN",
        "/plan%00",
        "/plan/entries",
        "/errors/",
        "/errors/no-such-code",
        "/errors/%00",
        "/errors/..%2f..%2fetc%2fpasswd",
        "/errors/<script>alert(1)</script>",
        "/errors/%ff%fe",
        "/errors/not-found/",
        "/errors/" + "x" * 20_000,
        "/static-offline-docs/",
        "/static-offline-docs/nothing.js",
        "/static-offline-docs/%00",
        "/static-offline-docs/..%2f..%2f__init__.py",
        "/static-offline-docs/" + "x" * 5000,
        "/redoc",
        "/.env",
    ],
)
def test_an_address_with_nothing_there_is_not_found_and_not_echoed(service: InProcess, path: str) -> None:
    for method in ("GET", "POST"):
        response = service.request(method, path)
        if response.status_code == 405:
            require_problem(response, "method-not-allowed")
            continue
        require_refused(service, response, "not-found")
        assert "script" not in response.text


def test_a_malformed_range_of_an_asset_is_a_problem_too(service: InProcess) -> None:
    asset = "/static-offline-docs/swagger-ui.css"
    malformed = service.get(asset, headers={"range": "bytes=abc"})
    outside = service.get(asset, headers={"range": "bytes=99999999-"})
    require_refused(service, malformed, "bad-request")
    require_refused(service, outside, "bad-request")
    assert [malformed.status_code, outside.status_code] == [400, 416]


@pytest.mark.parametrize("given", ["a", "A-b_c.9", "0" * 64])
def test_a_well_formed_request_id_comes_back(service: InProcess, given: str) -> None:
    good, bad = (service.post_plan(body, **{"x-request-id": given}) for body in (GOOD, b""))
    assert good.headers["x-request-id"] == bad.headers["x-request-id"] == bad.json()["request_id"] == given


@pytest.mark.parametrize(
    "given", [b"", b"0" * 65, b"a b", b"a\r\nset-cookie: x=1", b"a\n", b"\xe9", b'"', b"<b>", b"a;b", b"\x00"]
)
def test_any_other_request_id_is_replaced(service: InProcess, given: bytes) -> None:
    headers = [(b"x-request-id", given), (b"content-type", b"application/json")]
    for content in (GOOD, b"{"):
        response = service.post("/plan", content=content, headers=headers)
        request_id = response.headers["x-request-id"]
        assert len(request_id) == 32
        assert request_id.isalnum()
        assert "set-cookie" not in response.headers
    require_problem(response, "malformed-json")


def test_every_answer_has_an_id_of_its_own(service: InProcess) -> None:
    responses = [service.get(path) for path in (*GET_PATHS, "/nothing", "/plan") * 2]
    assert len({response.headers["x-request-id"] for response in responses}) == len(responses)


async def _chunks(total: int) -> AsyncIterator[bytes]:
    for _ in range(total // 100):
        yield b" " * 100


def test_a_body_over_the_limit_is_refused_by_its_length_and_by_its_bytes() -> None:
    with in_process(host_app(max_body_bytes=1000)) as service:
        for options in (
            {"content": b" " * 1001},
            {"content": _chunks(1100)},
            {"content": b"{}", "headers": {"content-length": "1001"}},
            {"content": b"{}", "headers": {"content-length": "9" * 400}},
        ):
            response = service.post("/plan", **options)
            detail = require_refused(service, response, "body-too-large")
            assert response.status_code == 413
            assert response.headers["connection"] == "close"
            assert detail == "the body exceeds 1000 bytes (KV_PLAN_MAX_BODY_BYTES)"


def test_a_body_at_the_limit_is_read() -> None:
    with in_process(host_app(max_body_bytes=1000)) as service:
        for content in (GOOD.ljust(1000), _padded_chunks(1000)):
            assert service.post("/plan", content=content).status_code == 200
        require_good_plan(service)


async def _padded_chunks(total: int) -> AsyncIterator[bytes]:
    body = GOOD.ljust(total)
    for start in range(0, total, 100):
        yield body[start : start + 100]
