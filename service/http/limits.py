"""Bounds request bodies before and while they are read. Pure ASGI, outside of everything that buffers."""

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.errors import Refusal, refusal
from service.http.headers import first_value
from service.http.problems import problem_response
from service.http.request_id import request_id_of


class BodyLimitMiddleware:
    """Refuses a body of more than ``max_body_bytes``: by its Content-Length at once, else when its bytes exceed it."""

    def __init__(self, app: ASGIApp, max_body_bytes: int) -> None:
        self._app = app
        self._max_body_bytes = max_body_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one ASGI scope."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if _content_length(scope) > self._max_body_bytes:
            await problem_response(self._too_large(), request_id_of(scope))(scope, receive, send)
            return
        received_bytes = 0

        async def receive_bounded() -> Message:
            nonlocal received_bytes
            message = await receive()
            received_bytes += len(message.get("body", b""))
            if received_bytes > self._max_body_bytes:
                raise self._too_large()
            return message

        await self._app(scope, receive_bounded, send)

    def _too_large(self) -> Refusal:
        return refusal("body-too-large", limit=self._max_body_bytes)


def _content_length(scope: Scope) -> int:
    """The announced length of the body, 0 when there is none; the server has refused malformed ones."""
    digits = first_value(scope["headers"], b"content-length")
    return int(digits[:20]) if digits is not None and digits.isdecimal() else 0
