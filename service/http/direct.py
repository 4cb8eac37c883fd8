"""The short way to raw routes: past the layers of the framework that raw routes do not need. Pure ASGI."""

from collections.abc import Sequence

from fastapi import Request
from starlette.requests import ClientDisconnect
from starlette.routing import BaseRoute, Match
from starlette.types import ASGIApp, Receive, Scope, Send

from service.errors import Refusal
from service.http.problems import problem_response
from service.http.raw import RawRoute
from service.http.request_id import request_id_of


class DirectMiddleware:
    """Takes requests that match a raw route in method and path to its endpoint, and leaves all others to ``app``.

    The framework's way leads to the same endpoint and the same answer, ten times as slowly: through stacks for
    dependencies and files, handlers of exceptions at two places and a search of every router. It still describes these
    routes, and answers what they do not: other methods, other paths.
    """

    def __init__(self, app: ASGIApp, routes: Sequence[BaseRoute]) -> None:
        self._app = app
        raw = [route for route in routes if isinstance(route, RawRoute)]
        self._patterns = [route for route in raw if route.param_convertors]
        plain = [route for route in raw if not route.param_convertors]
        self._plain = {(method, route.path): route for route in plain for method in route.methods or ()}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one ASGI scope."""
        route = self._route_of(scope) if scope["type"] == "http" else None
        if route is None:
            await self._app(scope, receive, send)
            return
        scope["route"] = route
        try:
            response = await route.endpoint(RawRequest(scope, receive))
        except Refusal as error:
            response = problem_response(error, request_id_of(scope))
        await response(scope, receive, send)

    def _route_of(self, scope: Scope) -> RawRoute | None:
        route = self._plain.get((scope["method"], _path_below_root(scope)))
        if route is not None:
            return route
        for route in self._patterns:
            match, path_scope = route.matches(scope)
            if match is Match.FULL:
                scope.update(path_scope)
                return route
        return None


class RawRequest(Request):
    """A request whose body is asked for whole."""

    async def body(self) -> bytes:
        """The body; the same bytes when it is asked for again. Raises ``ClientDisconnect`` when it does not arrive."""
        if not hasattr(self, "_body"):
            # The base class reads through an asynchronous generator, which costs four times as much.
            chunks: list[bytes] = []
            more = True
            while more:
                message = await self.receive()
                if message["type"] == "http.disconnect":
                    raise ClientDisconnect
                chunks.append(message.get("body", b""))
                more = message.get("more_body", False)
            self._body = b"".join(chunks)
        return self._body


def _path_below_root(scope: Scope) -> str:
    """The path as routes know it, without the prefix that a proxy has taken off and the server has put back."""
    path: str = scope["path"]
    below = path.removeprefix(scope.get("root_path", ""))
    return below if below[:1] in ("", "/") else path
