"""The outermost layers on scopes and failures that no client library produces."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.http.envelope import EnvelopeMiddleware
from service.http.limits import BodyLimitMiddleware
from tests.problems import require_problem
from tests.running import host_app, in_process

HTTP_SCOPE: Scope = {"type": "http", "method": "POST", "path": "/plan", "headers": []}


def _run(app: ASGIApp, scope: Scope, *messages: Message) -> list[Message]:
    """What ``app`` sends when it is sent ``messages``."""
    left = list(messages)
    sent: list[Message] = []

    async def receive() -> Message:
        return left.pop(0)

    async def send(message: Message) -> None:
        sent.append(message)

    asyncio.run(_call(app, dict(scope), receive, send))
    return sent


async def _call(app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
    await app(scope, receive, send)


def _app(serve: Callable[[Scope, Receive, Send], Awaitable[None]]) -> ASGIApp:
    return EnvelopeMiddleware(BodyLimitMiddleware(serve, max_body_bytes=10))


def test_scopes_other_than_http_pass_untouched() -> None:
    seen: list[Scope] = []

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(scope)

    assert _run(_app(serve), {"type": "websocket"}) == []
    assert seen == [{"type": "websocket"}]


def test_a_client_that_goes_away_gets_no_answer() -> None:
    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        await Request(scope, receive).body()

    half = {"type": "http.request", "body": b"{", "more_body": True}
    assert _run(_app(serve), HTTP_SCOPE, half, {"type": "http.disconnect"}) == []


def test_a_failure_after_the_answer_began_is_left_to_the_server(caplog: pytest.LogCaptureFixture) -> None:
    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        raise RuntimeError("too late")

    with pytest.raises(RuntimeError, match="too late"):
        _run(_app(serve), HTTP_SCOPE)
    assert "too late" in caplog.text


@pytest.mark.parametrize("began", [True, False])
def test_a_request_that_the_stop_cancels_is_told_unless_its_answer_has_begun(began: bool) -> None:
    sent: list[Message] = []

    async def serve(_scope: Scope, _receive: Receive, send: Send) -> None:
        if began:
            await send({"type": "http.response.start", "status": 200, "headers": []})
        raise asyncio.CancelledError

    async def receive() -> Message:
        raise AssertionError

    async def send(message: Message) -> None:
        sent.append(message)

    async def run() -> None:
        await _app(serve)(dict(HTTP_SCOPE), receive, send)

    if began:
        with pytest.raises(asyncio.CancelledError):
            asyncio.run(run())
    else:
        asyncio.run(run())
    assert [message["status"] for message in sent if "status" in message] == [200 if began else 503]


def test_a_failure_before_the_answer_began_is_a_problem_with_one_id() -> None:
    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        raise RuntimeError("in time")

    start, body = _run(_app(serve), HTTP_SCOPE)
    headers = dict(start["headers"])
    assert (start["status"], headers[b"content-type"]) == (500, b"application/problem+json")
    assert headers[b"x-request-id"] in body["body"]
    assert [name for name, _ in start["headers"]].count(b"x-request-id") == 1


def test_an_error_text_of_the_framework_is_replaced_whole() -> None:
    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 418, "headers": [(b"content-type", b"text/plain")]})
        await send({"type": "http.response.body", "body": b"short and ", "more_body": True})
        await send({"type": "http.response.body", "body": b"stout"})

    start, body = _run(_app(serve), HTTP_SCOPE)
    assert (start["status"], dict(start["headers"])[b"content-type"]) == (418, b"application/problem+json")
    assert b"stout" not in body["body"]


def test_bytes_over_the_limit_are_refused_while_they_arrive() -> None:
    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        await Request(scope, receive).body()

    chunk = {"type": "http.request", "body": b"123456", "more_body": True}
    start, _ = _run(_app(serve), HTTP_SCOPE, chunk, chunk, chunk)
    assert start["status"] == 500, "without the service's handlers the refusal is a defect"


@pytest.mark.parametrize("length", [b"abc", b"-1", b"1e9", b"", b"\xb2", b" 11"])
def test_a_length_that_is_no_number_is_not_trusted(length: bytes) -> None:
    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        await PlainTextResponse("served")(scope, receive, send)

    start, _ = _run(_app(serve), {**HTTP_SCOPE, "headers": [(b"content-length", length)]})
    assert start["status"] == 200


@pytest.mark.parametrize(
    ("status", "code"), [(400, "bad-request"), (409, "bad-request"), (404, "not-found"), (502, "internal-error")]
)
def test_whatever_the_framework_raises_is_a_problem_in_our_words(status: int, code: str) -> None:
    app = host_app()

    @app.get("/raise")
    async def fail() -> None:
        raise HTTPException(status, "Zq7secret", {"x-more": "kept"})

    with in_process(app) as service:
        response = service.get("/raise")
    assert require_problem(response, code)
    assert response.status_code == status
    assert response.headers["x-more"] == "kept"
    assert "Zq7secret" not in response.text
