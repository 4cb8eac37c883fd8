"""The outermost layer: puts an id on every answer and turns what nothing else caught into a problem. Pure ASGI."""

import logging

from starlette.datastructures import MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.errors import refusal
from service.http.problems import problem_response
from service.http.request_id import HEADER, assign_request_id

_logger = logging.getLogger(__name__)


class EnvelopeMiddleware:
    """Assigns the request id and answers 500 for a defect of the service, once, with the cause in the log only."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one ASGI scope."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = assign_request_id(scope)
        started = False

        async def send_with_id(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                MutableHeaders(scope=message)[HEADER] = request_id
            await send(message)

        try:
            await self._app(scope, receive, send_with_id)
        except ClientDisconnect:
            _logger.info("request %s: the client went away before its body was complete", request_id)
        except Exception:
            _logger.exception("request %s failed", request_id)
            if started:
                raise
            await problem_response(refusal("internal-error"), request_id)(scope, receive, send_with_id)
