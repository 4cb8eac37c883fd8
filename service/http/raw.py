"""Owns what raw routes share: an endpoint that gets the request as it is, and the way from it to an answer of bytes."""

from collections.abc import Callable, Coroutine, Mapping
from typing import Any, TypeVar

from fastapi import Request, Response
from fastapi.routing import APIRoute

from service.http.answers import JsonAnswer
from service.http.media import require_json
from service.runtime.engine import Answer, Engine, Operation

Q = TypeVar("Q")
R = TypeVar("R")
_NO_HEADERS: Mapping[str, str] = {}


class RawRoute(APIRoute):
    """A route whose endpoint reads the request itself; its signature only describes the body for the schema."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The endpoint, called with the request as it is."""
        endpoint: Callable[[Request], Coroutine[Any, Any, Response]] = self.endpoint
        return endpoint


async def perform(engine: Engine, operation: Operation[Q, R], request: Request) -> Answer[R]:
    """The answer of an operation to the request's JSON body."""
    require_json(request.headers)
    return await engine.perform(operation, request.body)


def answered(answer: Answer[R], headers: Mapping[str, str] = _NO_HEADERS, status: int = 200) -> Response:
    """The response that carries an answer, the times of its stages, and ``headers``."""
    return JsonAnswer(answer.content, {"server-timing": _server_timing(answer), **headers}, status)


def _server_timing(answer: Answer[R]) -> str:
    """Stage times as the Server-Timing header gives them, in milliseconds."""
    return ", ".join(f"{name};dur={seconds * 1e3:.3f}" for name, seconds in answer.stage_seconds.items())
