"""The short way to raw routes: it answers as the framework's way does, and takes nothing that is not a raw route's."""

import asyncio
from typing import Any

import orjson
import pytest
from fastapi import APIRouter, FastAPI, Request, Response
from starlette.requests import ClientDisconnect
from starlette.types import Message

from service.errors import refusal
from service.http.direct import DirectMiddleware, RawRequest
from service.http.raw import RawRoute
from tests.running import GOOD_REQUEST, host_app

GOOD = orjson.dumps(GOOD_REQUEST)
Answer = tuple[int, dict[bytes, bytes], bytes]


def _scope(method: str = "POST", path: str = "/plan", **more: Any) -> dict[str, Any]:
    return {
        "type": "http",
        "method": method,
        "path": path,
        "query_string": b"",
        "headers": [(b"x-request-id", b"the-same")],
        **more,
    }


def _answer(app: FastAPI, scope: dict[str, Any], *chunks: bytes) -> Answer:
    """Status, headers but for the stage times, and body of what ``app`` answers when it is sent ``chunks``."""
    messages: list[Message] = [{"type": "http.request", "body": chunk, "more_body": True} for chunk in chunks]
    messages.append({"type": "http.request"})
    sent: list[Message] = []

    async def receive() -> Message:
        return messages.pop(0)

    async def send(message: Message) -> None:
        sent.append(message)

    async def run() -> None:
        async with app.router.lifespan_context(app):
            await app(scope, receive, send)

    asyncio.run(run())
    headers = dict(sent[0]["headers"])
    headers.pop(b"server-timing", None)
    return sent[0]["status"], headers, b"".join(message.get("body", b"") for message in sent)


def _small_app() -> FastAPI:
    """An app with raw routes of every kind, and one route that is not raw."""
    router = APIRouter(route_class=RawRoute)

    @router.post("/echo")
    async def echo(request: Request) -> Response:
        return Response(await request.body() + await request.body())

    @router.post("/refused")
    async def refused(request: Request) -> Response:
        raise refusal("not-ready", reason="it rests")

    @router.post("/pools/{pool}/step")
    async def step(request: Request) -> Response:
        return Response(request.path_params["pool"])

    app = FastAPI()
    app.include_router(router)
    plain = APIRouter()

    @plain.post("/pools/{pool}/plain")
    async def not_raw(pool: str) -> str:
        return pool

    app.include_router(plain)
    app.add_middleware(DirectMiddleware, routes=[*router.routes, *plain.routes])
    return app


@pytest.mark.parametrize("path", ["/plan", "/plan/offsets"])
@pytest.mark.parametrize("body", [GOOD, b"", b"{}", b'{"req_pool_indices": [1.5]}'])
def test_both_ways_to_a_raw_route_give_the_same_answer(path: str, body: bytes) -> None:
    direct = _answer(host_app(), _scope(path=path), body)
    framework = host_app()
    framework.user_middleware = [
        layer for layer in framework.user_middleware if str(layer.cls) != str(DirectMiddleware)
    ]
    assert direct == _answer(framework, _scope(path=path), body)
    assert direct[0] == (200 if body == GOOD else 400 if body == b"" else 422)


def test_a_route_is_found_below_the_prefix_of_a_proxy() -> None:
    for path, root_path, status in (
        ("/api/plan", "/api", 200),
        ("/plan", "/api", 200),
        ("/plan", "/plan", 404),
        ("/apiplan", "/api", 404),
        ("/api/plan", "", 404),
    ):
        assert _answer(host_app(), _scope(path=path, root_path=root_path), GOOD)[0] == status


def test_whatever_is_not_exactly_a_raw_route_is_left_to_the_framework() -> None:
    assert _answer(host_app(), _scope("GET"))[0] == 405
    assert _answer(host_app(), _scope("HEAD"))[0] == 405
    assert _answer(host_app(), _scope(path="/plan/"))[0] == 404
    small = _small_app()
    assert _answer(small, _scope(path="/pools/a/plain"))[2] == b'"a"'
    assert _answer(small, _scope("GET", "/pools/a/step"))[0] == 405


def test_a_route_with_a_name_in_its_path_gets_the_name() -> None:
    assert _answer(_small_app(), _scope(path="/pools/a-1/step"))[2] == b"a-1"


def test_a_body_is_read_once_and_whole() -> None:
    assert _answer(_small_app(), _scope(path="/echo"), b"ab", b"", b"c")[2] == b"abcabc"


def test_a_refusal_of_an_endpoint_is_a_problem() -> None:
    status, headers, body = _answer(_small_app(), _scope(path="/refused") | {"kv_plan.request_id": "r1"})
    assert (status, headers[b"content-type"]) == (503, b"application/problem+json")
    assert orjson.loads(body)["request_id"] == "r1"


def test_a_client_that_goes_away_leaves_no_half_body() -> None:
    messages: list[Message] = [{"type": "http.request", "body": b"{", "more_body": True}, {"type": "http.disconnect"}]

    async def receive() -> Message:
        return messages.pop(0)

    with pytest.raises(ClientDisconnect):
        asyncio.run(RawRequest(_scope(), receive).body())
