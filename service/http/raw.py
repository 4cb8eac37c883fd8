"""Owns what raw routes share: an endpoint that gets the request as it is, and the way from it to an answer of bytes."""

from collections.abc import Callable, Coroutine, Iterable, Mapping
from functools import partial
from io import BytesIO
from itertools import chain
from typing import Any, TypeVar

from fastapi import Request, Response
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute
from starlette.types import Receive, Scope, Send

from service.http.answers import JsonAnswer
from service.http.media import require_json
from service.runtime.engine import Answer, Engine, Operation

Q = TypeVar("Q")
R = TypeVar("R")
_NO_HEADERS: Mapping[str, str] = {}
BODY_AT_HAND = "kv_plan.body_at_hand"
"""In the scope of a request whose body has been received before anybody asked for it."""


class RawRoute(APIRoute):
    """A route whose endpoint reads the request itself; its signature only describes the body for the schema."""

    allowed: frozenset[str] = frozenset()
    """The methods of all routes of its path, for the answer to any other; see ``share_methods``."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The endpoint, called with the request as it is."""
        endpoint: Callable[[Request], Coroutine[Any, Any, Response]] = self.endpoint
        return endpoint

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one ASGI scope of this path."""
        if scope["method"] not in (self.methods or ()):
            raise HTTPException(405, headers={"Allow": ", ".join(sorted(self.allowed.union(self.methods or ())))})
        await super().handle(scope, receive, send)


def share_methods(routes: Iterable[BaseRoute]) -> None:
    """Tell each raw route the methods of all that have its path: the framework would name those of the first only."""
    raw = [route for route in routes if isinstance(route, RawRoute)]
    for route in raw:
        methods = [other.methods or () for other in raw if other.path == route.path]
        route.allowed = frozenset(chain.from_iterable(methods))


async def perform(engine: Engine, operation: Operation[Q, R], request: Request) -> Answer[R]:
    """The answer of an operation to the request's JSON body."""
    require_json(request.headers)
    return await engine.perform(operation, partial(read_body, request), at_hand=BODY_AT_HAND in request.scope)


async def read_body(request: Request) -> bytes:
    """The whole body, in one piece of memory from its second part on: joining the parts would need it twice."""
    first = b""
    buffer: BytesIO | None = None
    async for part in request.stream():
        if not first:
            first = part
        elif part:
            if buffer is None:
                buffer = BytesIO()
                buffer.write(first)
            buffer.write(part)
    return first if buffer is None else buffer.getvalue()


def answered(answer: Answer[R], headers: Mapping[str, str] = _NO_HEADERS, status: int = 200) -> Response:
    """The response that carries an answer, the times of its stages, and ``headers``."""
    return JsonAnswer(answer.content, {"server-timing": _server_timing(answer), **headers}, status)


def _server_timing(answer: Answer[R]) -> str:
    """Stage times as the Server-Timing header gives them, in milliseconds."""
    decode, queue, compute, encode = (1e3 * seconds for seconds in answer.stage_seconds)
    return f"decode;dur={decode:.3f}, queue;dur={queue:.3f}, compute;dur={compute:.3f}, encode;dur={encode:.3f}"
