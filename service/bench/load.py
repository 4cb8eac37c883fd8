"""Sends one request over and over on keep-alive connections and times the answers. Knows HTTP/1.1 and no plan."""

import asyncio
import math
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import httptools

from service.bench.servers import ServerError

_PATIENCE_SECONDS = 120.0
"""Longest time that no answer comes before the server counts as stuck."""
_SHOWN_BYTES = 200
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Call:
    """One request as bytes, the loopback port it goes to, and the body that its answer must have."""

    port: int
    request: bytes
    expected: bytes


@dataclass(frozen=True, slots=True)
class Bounds:
    """When a round ends: after so many requests, or when no more are begun because so many seconds have passed."""

    requests: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Round:
    """What one round measured: one latency per answer, and the Server-Timing headers of those that had one."""

    latencies_seconds: list[float]
    elapsed_seconds: float
    generator_busy: float
    """Share of the time for which this process used a core; near 1 the load generator is the limit."""
    server_timings: list[bytes]

    @property
    def requests_per_second(self) -> float:
        """Throughput of the round."""
        return len(self.latencies_seconds) / self.elapsed_seconds


def request_bytes(path: str, headers: Mapping[str, str], body: bytes) -> bytes:
    """A POST as it goes over the wire."""
    all_headers = {"host": "127.0.0.1", **headers, "content-length": str(len(body))}
    lines = [f"POST {path} HTTP/1.1", *(f"{name}: {value}" for name, value in all_headers.items())]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least ``share`` of the values do not exceed.

    >>> percentile([4.0, 1.0, 3.0, 2.0], 0.5), percentile([4.0, 1.0, 3.0, 2.0], 0.99)
    (2.0, 4.0)
    """
    return sorted(values)[max(math.ceil(share * len(values)), 1) - 1]


def run_round(call: Call, concurrency: int, bounds: Bounds) -> Round:
    """One round of a call, at most ``concurrency`` requests in flight, each on a connection of its own.

    Raises ``ServerError`` for the first answer that is not 200 with the expected body, and for a connection that fails.
    """
    return _run(_drive(call, min(concurrency, bounds.requests), bounds))


def _run(work: Coroutine[Any, Any, _T]) -> _T:
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return runner.run(work)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop's event loop, or None for that of the standard library where there is no uvloop."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


async def _drive(call: Call, concurrency: int, bounds: Bounds) -> Round:
    loop = asyncio.get_running_loop()
    tally = _Tally(call, bounds, loop.create_future())
    connections: list[_Connection] = []
    try:
        for _ in range(concurrency):
            _, connection = await loop.create_connection(lambda: _Connection(tally), "127.0.0.1", call.port)
            connections.append(connection)
        busy = time.process_time()
        tally.begin()
        for connection in connections:
            connection.send_next()
        await _finished(tally)
        busy = time.process_time() - busy
    except OSError as error:
        raise ServerError(f"cannot connect to port {call.port}: {error.strerror}") from error
    finally:
        for connection in connections:
            connection.close()
    elapsed = tally.ended - tally.began
    return Round(tally.latencies, elapsed, busy / elapsed, tally.server_timings)


async def _finished(tally: "_Tally") -> None:
    """Wait for the last answer, as long as answers keep coming."""
    answered = -1
    while True:
        done, _ = await asyncio.wait([tally.finished], timeout=_PATIENCE_SECONDS)
        if done:
            return tally.finished.result()
        if answered == len(tally.latencies):
            raise ServerError(f"no answer for {_PATIENCE_SECONDS:g} seconds")
        answered = len(tally.latencies)


class _Tally:
    """What all connections of a round share: how many requests are left, and what was measured."""

    def __init__(self, call: Call, bounds: Bounds, finished: asyncio.Future[None]) -> None:
        self.call = call
        self.finished = finished
        self.latencies: list[float] = []
        self.server_timings: list[bytes] = []
        self.began = self.ended = 0.0
        self._bounds = bounds
        self._begun = 0
        self._last_start = math.inf

    def begin(self) -> None:
        """Start the clock."""
        self.began = time.perf_counter()
        self._last_start = self.began + self._bounds.seconds

    def may_send(self, now: float) -> bool:
        """Whether one more request is begun; the first one always is."""
        if self._begun >= self._bounds.requests or (now > self._last_start and self._begun):
            return False
        self._begun += 1
        return True

    def take(self, seconds: float, now: float) -> None:
        """Count an answer; the last one ends the round unless another request may follow."""
        self.latencies.append(seconds)
        self.ended = now

    def end_if_done(self) -> None:
        """End the round once nothing is in flight."""
        if len(self.latencies) == self._begun and not self.finished.done():
            self.finished.set_result(None)

    def fail(self, words: str) -> None:
        """End the round with an error."""
        if not self.finished.done():
            self.finished.set_exception(ServerError(words))


class _Connection(asyncio.Protocol):
    """One keep-alive connection with at most one request in flight."""

    def __init__(self, tally: _Tally) -> None:
        self._tally = tally
        self._parser = httptools.HttpResponseParser(self)
        self._parts: list[bytes] = []
        self._sent = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep what to write to."""
        self._transport = cast("asyncio.WriteTransport", transport)  # uvloop's is one, but does not derive from it

    def close(self) -> None:
        """Drop the connection; nothing more is expected of it."""
        self._transport.abort()

    def send_next(self) -> None:
        """Send the request once more, or end the round if this was the last one in flight."""
        now = time.perf_counter()
        if self._tally.may_send(now):
            self._sent = now
            self._transport.write(self._tally.call.request)
        else:
            self._tally.end_if_done()

    def data_received(self, data: bytes) -> None:
        """Take bytes of an answer."""
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._tally.fail(f"answered what is not HTTP: {error}")

    def connection_lost(self, _: Exception | None) -> None:
        """Fail a round that still needed the connection."""
        self._tally.fail("closed the connection")

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep the stage times."""
        if name.lower() == b"server-timing":
            self._tally.server_timings.append(value)

    def on_body(self, part: bytes) -> None:
        """Keep a part of the answer's body."""
        self._parts.append(part)

    def on_message_complete(self) -> None:
        """Judge and count the answer, then go on."""
        now = time.perf_counter()
        body = b"".join(self._parts)
        self._parts.clear()
        status = self._parser.get_status_code()
        if status != 200:
            self._tally.fail(f"answered {status}: {body[:_SHOWN_BYTES].decode(errors='replace')}")
        elif body != self._tally.call.expected:
            self._tally.fail("answered the same request differently under load")
        else:
            self._tally.take(now - self._sent, now)
            self.send_next()
