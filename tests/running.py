"""Runs the service for tests: in process on an event loop of its own, or on a loopback socket."""

import asyncio
import threading
from collections.abc import Coroutine, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

import httpx
import uvicorn
from fastapi import FastAPI

from service.app import create_app
from service.http.protocol import ProblemProtocol
from service.runtime.operations import Compute
from service.server import listen
from service.settings import Settings

PATIENCE_SECONDS = 120.0
"""A test that waits longer than this hangs. No test passes or fails by how fast anything is."""

GOOD_REQUEST: dict[str, Any] = {
    "req_pool_indices": [1],
    "prefix_lens": [2],
    "extend_seq_lens": [1],
    "req_to_token": [[0, 0, 0], [5, 6, 7]],
}
GOOD_SLOTS = [5, 6]


def host_app(compute: Compute | None = None, **settings: Any) -> FastAPI:
    """The service on the CPU with the host backend, whatever the environment says."""
    return create_app(Settings(**{"device": "cpu", "kernels": "host"} | settings), compute)


class InProcess:
    """The service in process. Calls block; those whose names begin with ``start`` return a future."""

    def __init__(self, loop: asyncio.AbstractEventLoop, client: httpx.AsyncClient) -> None:
        self._loop = loop
        self._client = client

    def start(self, method: str, path: str, **options: Any) -> Future[httpx.Response]:
        """Send a request; its answer comes later."""
        return self._start(self._client.request(method, path, **options))

    def start_plan(self, request: object = None) -> Future[httpx.Response]:
        """POST /plan with a good request, or the given one; its answer comes later."""
        return self.start("POST", "/plan", json=GOOD_REQUEST if request is None else request)

    def request(self, method: str, path: str, **options: Any) -> httpx.Response:
        """The answer to one request."""
        return self.start(method, path, **options).result(PATIENCE_SECONDS)

    def get(self, path: str, **options: Any) -> httpx.Response:
        """The answer to a GET."""
        return self.request("GET", path, **options)

    def post(self, path: str, **options: Any) -> httpx.Response:
        """The answer to a POST."""
        return self.request("POST", path, **options)

    def post_plan(self, content: bytes | str, **headers: str) -> httpx.Response:
        """The answer of POST /plan to a body as it is."""
        return self.post("/plan", content=content, headers=headers)

    def _start(self, coroutine: Coroutine[Any, Any, httpx.Response]) -> Future[httpx.Response]:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)


@contextmanager
def in_process(app: FastAPI) -> Iterator[InProcess]:
    """``app`` with its lifespan entered, reached through httpx without a socket."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="in-process-service", daemon=True)
    thread.start()

    def run(coroutine: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, loop).result(PATIENCE_SECONDS)

    lifespan = app.router.lifespan_context(app)
    client = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://service", timeout=PATIENCE_SECONDS)
    run(lifespan.__aenter__())
    try:
        yield InProcess(loop, client)
    finally:
        run(client.aclose())
        run(lifespan.__aexit__(None, None, None))
        loop.call_soon_threadsafe(loop.stop)
        thread.join(PATIENCE_SECONDS)
        loop.close()


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening = threading.Event()

    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets)
        self.listening.set()


@contextmanager
def on_socket(app: FastAPI, root_path: str = "") -> Iterator[httpx.Client]:
    """``app`` behind uvicorn on a free loopback port, reached over TCP."""
    listener = listen("127.0.0.1", 0)
    port = listener.getsockname()[1]
    config = uvicorn.Config(app, http=ProblemProtocol, ws="none", lifespan="on", log_config=None, root_path=root_path)
    server = _Server(config)
    thread = threading.Thread(target=server.run, args=([listener],), name="socket-service", daemon=True)
    thread.start()
    try:
        assert server.listening.wait(PATIENCE_SECONDS)
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE_SECONDS) as client:
            yield client
    finally:
        server.should_exit = True
        thread.join(PATIENCE_SECONDS)
        listener.close()
    assert not thread.is_alive(), "the server does not end"
