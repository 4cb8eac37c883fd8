"""The outermost layer: puts an id on every answer and makes a problem of every error that is none yet. Pure ASGI."""

import asyncio
import logging

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.errors import refusal
from service.http.headers import first_value
from service.http.problems import PROBLEM_JSON, framework_problem, problem_response
from service.http.request_id import HEADER, assign_request_id

_logger = logging.getLogger(__name__)


class EnvelopeMiddleware:
    """Assigns the request id, answers 500 for a defect of the service, and replaces error texts of the framework.

    The cause of a 500 is in the log only.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one ASGI scope."""
        if scope["type"] == "http":
            await self._serve(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        request_id = assign_request_id(scope)
        id_header = (HEADER, request_id.encode())
        started = replaced = False

        async def send_with_id(message: Message) -> None:
            nonlocal started, replaced
            if message["type"] == "http.response.start":
                started = True
                headers = [pair for pair in message.get("headers", ()) if pair[0] != HEADER]
                message["headers"] = [*headers, id_header]
                replaced = message["status"] >= 400 and first_value(headers, b"content-type") != PROBLEM_JSON
                if replaced:
                    await framework_problem(message["status"], request_id)(scope, receive, send)
            if not replaced:
                await send(message)

        try:
            await self._app(scope, receive, send_with_id)
        except asyncio.CancelledError:
            # Only the server's stop cancels a request, and it does not wait for what comes of that.
            if started:
                raise
            await problem_response(refusal("shutting-down"), request_id)(scope, receive, send_with_id)
        except ClientDisconnect:
            _logger.info("request %s: the client went away before its body was complete", request_id)
        except Exception:
            _logger.exception("request %s failed", request_id)
            if started:
                raise
            await problem_response(refusal("internal-error"), request_id)(scope, receive, send_with_id)
