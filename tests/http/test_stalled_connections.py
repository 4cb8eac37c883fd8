"""Connections on which nothing goes on are closed, and answers that nobody reads are dropped."""

import asyncio
import re
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

from service.http.protocol import ProblemProtocol
from tests.http.wire import EchoApp, Wire, connect, settle
from tests.running import PATIENCE_SECONDS

EARLY = b"POST /early HTTP/1.1\r\ncontent-length: 4\r\n\r\n"
GET = b"GET /a HTTP/1.1\r\n\r\n"
LARGE_BYTES = 64 * 2**20


def _uvloop() -> asyncio.AbstractEventLoop:
    if sys.platform == "win32":
        pytest.skip("needs uvloop; install it where it has a wheel")
    import uvloop

    return uvloop.new_event_loop()


@pytest.fixture(params=[asyncio.new_event_loop, _uvloop], ids=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Callable[[Coroutine[Any, Any, None]], None]:
    """Runs a coroutine on either event loop that the server may have."""

    def run_patiently(coroutine: Coroutine[Any, Any, None]) -> None:
        with asyncio.Runner(loop_factory=request.param) as runner:
            runner.run(asyncio.wait_for(coroutine, PATIENCE_SECONDS))

    return run_patiently


@asynccontextmanager
async def _serving(app: Any) -> AsyncIterator[tuple[int, ServerState]]:
    """The port of a server that waits one second for its clients, and its state."""
    state = ServerState()
    config = uvicorn.Config(app, http=ProblemProtocol, ws="none", lifespan="off", log_config=None, timeout_keep_alive=1)
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: ProblemProtocol(config, state, {}), "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1], state
    finally:
        server.close()


async def _statuses_until_closed(port: int, history: tuple[bytes, ...]) -> list[bytes]:
    """The statuses of the answers to what is sent, each part after the answer to the one before."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    received = b""
    for part in history:
        writer.write(part)
        await writer.drain()
        if part in (GET, EARLY):
            received += await reader.readuntil(b'"]')
    received += await reader.read()
    writer.close()
    return re.findall(rb"HTTP/1.1 (\d+)", received)


HISTORIES: dict[tuple[bytes, ...], list[bytes]] = {
    (): [],
    (b"GET /a HT",): [],
    (b"\r\n",): [],
    (GET,): [b"200"],
    (GET, b"GET /b"): [b"200"],
    (GET, GET): [b"200", b"200"],
    (EARLY,): [b"200"],
    (EARLY, b"12"): [b"200"],
    (EARLY, b"12", b"34"): [b"200"],
    (EARLY, b"1234GET"): [b"200"],
}


def test_a_connection_without_a_request_is_closed(run: Callable[[Coroutine[Any, Any, None]], None]) -> None:
    async def judge() -> None:
        async with _serving(EchoApp()) as (port, state):
            found = await asyncio.gather(*(_statuses_until_closed(port, history) for history in HISTORIES))
            assert dict(zip(HISTORIES, found, strict=True)) == HISTORIES
            await _ended(state)

    run(judge())


async def _ended(state: ServerState) -> None:
    while state.connections:
        await asyncio.sleep(0.01)


def test_a_head_that_arrives_byte_by_byte_ends(run: Callable[[Coroutine[Any, Any, None]], None]) -> None:
    async def judge() -> None:
        async with _serving(EchoApp()) as (port, state):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET /a?")
            await asyncio.sleep(0.01)
            assert state.connections
            while state.connections:
                writer.write(b"a")
                await asyncio.sleep(0.01)
            writer.close()

    run(judge())


def test_a_body_that_is_not_needed_may_take_its_time_and_a_head_may_not() -> None:
    async def judge() -> None:
        protocol = connect(Wire(), EchoApp())
        protocol.data_received(EARLY)
        await settle()
        closing_times = []
        for read in (b"1", b"2", b"34", b"GET", b" /a"):
            await asyncio.sleep(0.001)
            protocol.data_received(read)
            assert protocol.timeout_keep_alive_task is not None
            closing_times.append(protocol.timeout_keep_alive_task.when())
        first, second, end_of_body, *head = closing_times
        assert first < second < end_of_body
        assert head == [end_of_body, end_of_body]
        await _leave(protocol)

    asyncio.run(judge())


def test_an_answer_that_nobody_reads_is_dropped(run: Callable[[Coroutine[Any, Any, None]], None]) -> None:
    async def large(_scope: Any, _receive: Any, send: Any) -> None:
        headers = [(b"content-length", b"%d" % LARGE_BYTES)]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": bytes(LARGE_BYTES)})

    async def judge() -> None:
        async with _serving(large) as (port, state):
            reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1024)
            writer.write(2 * GET)
            await reader.readuntil(b"\r\n\r\n")  # and stops reading, its limit being reached
            await _ended(state)
            writer.transport.abort()
            while state.tasks:
                await asyncio.sleep(0.01)

    run(judge())


def _paused(wire: Wire) -> ProblemProtocol:
    """A connection with a request in progress and answers that are not read."""
    protocol = connect(wire, EchoApp(), keep_alive_seconds=0)
    protocol.data_received(b"GET /slow HTTP/1.1\r\n\r\n")
    protocol.pause_writing()
    return protocol


async def _leave(protocol: ProblemProtocol) -> None:
    protocol.connection_lost(None)
    await settle()


def test_an_answer_is_read_as_slowly_as_it_likes_while_it_is_read() -> None:
    async def judge() -> None:
        wire = Wire(unsent=range(10, 0, -1))
        protocol = _paused(wire)
        await asyncio.wait_for(_aborted(wire), PATIENCE_SECONDS)
        assert wire.unsent == [1]
        await _leave(protocol)

    asyncio.run(judge())


async def _aborted(wire: Wire) -> None:
    while not wire.aborted:
        await asyncio.sleep(0)


def test_a_client_that_reads_again_is_not_waited_for() -> None:
    async def judge() -> None:
        wire = Wire(unsent=[1])
        protocol = _paused(wire)
        protocol.resume_writing()
        await settle()
        assert not wire.aborted
        protocol.pause_writing()
        await _aborted(wire)
        await _leave(protocol)

    asyncio.run(asyncio.wait_for(judge(), PATIENCE_SECONDS))


@pytest.mark.parametrize(
    "last",
    [
        b"",
        b"no http at all\r\n\r\n",
        b"POST /a HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nzz",
        b"GET /early HTTP/1.0\r\n\r\n",
        b"GET /early HTTP/1.1\r\n\r\n",
    ],
)
def test_a_connection_that_is_closed_does_not_wait_for_its_client_for_ever(last: bytes) -> None:
    async def judge() -> None:
        wire = Wire(unsent=[3, 2, 1])
        protocol = connect(wire, EchoApp(), keep_alive_seconds=0)
        if last:
            protocol.data_received(last)
        while not wire.closing:
            await asyncio.sleep(0)
        protocol.resume_writing()  # as a transport does when only little is left
        await _aborted(wire)
        assert wire.unsent == [1]
        await _leave(protocol)

    asyncio.run(asyncio.wait_for(judge(), PATIENCE_SECONDS))


@pytest.mark.parametrize("reason", [None, ConnectionResetError()])
def test_a_connection_that_has_ended_is_not_watched(reason: Exception | None) -> None:
    async def judge() -> None:
        wire = Wire(unsent=[4, 3, 2, 1])
        protocol = connect(wire, EchoApp(), keep_alive_seconds=0)
        protocol.pause_writing()
        protocol.data_received(b"no http at all\r\n\r\n")
        protocol.connection_lost(reason)
        unsent = list(wire.unsent)
        assert protocol.timeout_keep_alive_task is None
        await settle()
        assert wire.unsent == unsent
        assert not wire.aborted

    asyncio.run(judge())


def test_an_answer_that_comes_after_the_end_waits_for_nobody() -> None:
    async def judge() -> None:
        wire, app = Wire(unsent=[2, 1]), EchoApp()
        protocol = connect(wire, app, keep_alive_seconds=0)
        protocol.data_received(b"GET /slow HTTP/1.1\r\n\r\n" + GET)
        await settle()
        wire.close()
        await _leave(protocol)
        app.released.set()
        await settle()
        assert wire.unsent == [2, 1]
        assert not wire.aborted

    asyncio.run(judge())
