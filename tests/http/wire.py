"""A connection without a socket: bytes reach the server's parser in exactly the reads that a test says."""

import asyncio
import json
import re
from collections.abc import Iterable
from typing import Any

import uvicorn
from uvicorn.server import ServerState

from service.http.protocol import ProblemProtocol
from tests.running import PATIENCE_SECONDS


class Wire(asyncio.Transport):
    """The server's transport: keeps what is sent; as many bytes stay unsent as ``unsent`` says, look by look."""

    def __init__(self, unsent: Iterable[int] = ()) -> None:
        super().__init__()
        self.sent = b""
        self.closing = False
        self.aborted = False
        self.is_paused = False
        self.unsent = list(unsent)

    @property
    def answers(self) -> list[tuple[int, bytes]]:
        """Status and body of every answer, in order."""
        found, rest = [], self.sent
        while rest:
            head, _, rest = rest.partition(b"\r\n\r\n")
            (length,) = re.findall(rb"\r\ncontent-length: (\d+)", head)
            found.append((int(head.split()[1]), rest[: int(length)]))
            rest = rest[int(length) :]
        return found

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Keep what the server sends before it ends the connection."""
        if not self.closing:
            self.sent += data

    def close(self) -> None:
        """The server ends the connection."""
        self.closing = True

    def abort(self) -> None:
        """The server ends the connection and drops what is unsent."""
        self.closing = self.aborted = True

    def is_closing(self) -> bool:
        """Whether the server has ended the connection."""
        return self.closing

    def get_write_buffer_size(self) -> int:
        """What is unsent at this look; the last number stays."""
        return self.unsent.pop(0) if len(self.unsent) > 1 else sum(self.unsent)

    def pause_reading(self) -> None:
        """Noted, but the reads come as the test says."""
        self.is_paused = True

    def resume_reading(self) -> None:
        """Noted."""
        self.is_paused = False


class EchoApp:
    """Answers a request with what it was; ``/early`` without its body, ``/slow`` once ``released`` is set."""

    def __init__(self) -> None:
        self.released = asyncio.Event()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Serve one ASGI scope."""
        body, more = b"", scope["path"] != "/early"
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            body, more = body + message["body"], message["more_body"]
        if scope["path"] == "/slow":
            await self.released.wait()
        answer = echo(scope["method"], scope["path"], scope["headers"], body)
        start = {"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(answer))]}
        await send(start)
        await send({"type": "http.response.body", "body": answer})


def echo(method: str, path: str, headers: Iterable[tuple[bytes, bytes]], body: bytes) -> bytes:
    """The body of the answer to a request."""
    return json.dumps(
        [method, path, [[name.decode(), value.decode()] for name, value in headers], body.decode()]
    ).encode()


def connect(wire: Wire, app: Any, keep_alive_seconds: int = 75) -> ProblemProtocol:
    """The parser of a new connection to ``app``."""
    config = uvicorn.Config(
        app, http=ProblemProtocol, ws="none", lifespan="off", log_config=None, timeout_keep_alive=keep_alive_seconds
    )
    protocol = ProblemProtocol(config, ServerState(), {})
    protocol.connection_made(wire)
    return protocol


async def settle() -> None:
    """Let the application do what it can with what has been read."""
    for _ in range(10):
        await asyncio.sleep(0)


async def exchange(*reads: bytes) -> Wire:
    """A connection whose client sends the reads, until the server ends it, and then leaves."""
    wire = Wire()
    protocol = connect(wire, EchoApp())
    async with asyncio.timeout(PATIENCE_SECONDS):
        for read in reads:
            if not wire.closing:
                protocol.data_received(read)
                await settle()
    ended_by_server = wire.closing
    protocol.connection_lost(None)
    await settle()
    wire.closing = ended_by_server
    return wire
