"""Requests mean the same however their bytes arrive; offers to upgrade, trailers and refused requests disturb none."""

import asyncio
import json
from collections.abc import Iterator
from itertools import chain, repeat
from typing import Any

import pytest

from service.http.protocol import MAX_HEAD_BYTES, MAX_WAITING_REQUESTS
from tests.http.wire import EchoApp, Wire, connect, echo, exchange, settle
from tests.running import PATIENCE_SECONDS

OFFER = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"
CHUNKED = b"POST /a HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n"
NEXT = b"GET /next HTTP/1.1\r\nhost: x\r\n\r\n"
NEXT_ECHO = echo("GET", "/next", [(b"host", b"x")], b"")
GARBAGE = b"no http at all\r\n\r\n"
REQUESTS = {
    "plain": b"POST /a?b HTTP/1.1\r\ncontent-length: 2\r\nempty:\r\nx: y \r\n\r\n{}",
    "offer": b"POST /a HTTP/1.1\r\ncontent-length: 2\r\nUpgrade: h2c/1.0 4\r\nConnection: upgrade\r\n\r\n{}",
    "offer without a body": b"GET /a HTTP/1.1\r\n" + OFFER + b"\r\n",
    "offer with chunks": CHUNKED[:-2] + OFFER + b"\r\n2\r\n{}\r\n0\r\n\r\n",
    "body like an offer": b"POST /a HTTP/1.1\r\ncontent-length: 23\r\n\r\n[1,\r\nUpgrade: h2c\r\n\r\n2]",
    "trailers": CHUNKED + b"2;x=y\r\n{}\r\n0\r\nexpect: 100-continue\r\nUpgrade: x\r\n\r\n",
    "answered early": b"POST /early HTTP/1.1\r\ncontent-length: 9\r\n\r\n123456789",
}


def _pieces(stream: bytes) -> Iterator[list[bytes]]:
    """The stream in two reads, in every way, and each byte alone."""
    for split in range(1, len(stream)):
        yield [stream[:split], stream[split:]]
    yield [bytes([byte]) for byte in stream]


@pytest.mark.parametrize("name", REQUESTS)
@pytest.mark.parametrize("before", ["nothing", "plain", "offer"])
def test_a_request_is_answered_the_same_however_it_arrives(name: str, before: str) -> None:
    stream = REQUESTS.get(before, b"") + REQUESTS[name] + NEXT

    async def judge() -> None:
        whole = await exchange(stream)
        assert [status for status, _ in whole.answers] == [200] * (2 + (before in REQUESTS))
        assert whole.answers[-1][1] == NEXT_ECHO
        for reads in _pieces(stream):
            assert (await exchange(*reads)).sent == whole.sent, reads

    asyncio.run(judge())


@pytest.mark.parametrize(
    "offer",
    [
        OFFER,
        b"UpGrade: websocket\r\nCONNECTION: close, uPGRADE\r\n",
        b"upgrade:h2c\r\nconnection:upgrade\r\n",
        b"UPGRADE:\th2c \r\nConnection: keep-alive,upgrade\r\n",
        b"Upgrade: a\r\nConnection: upgrade\r\nUpgrade: b\r\n",
    ],
)
@pytest.mark.parametrize("version", [b"1.0", b"1.1"])
def test_an_offer_to_upgrade_leaves_the_request_as_it_is(offer: bytes, version: bytes) -> None:
    wire = asyncio.run(exchange(b"PUT /a%%20b HTTP/%b\r\nx: 1\r\n%bContent-Length: 2\r\n\r\n{}" % (version, offer)))
    ((status, answer),) = wire.answers
    method, path, headers, body = json.loads(answer)
    assert (status, method, path, body) == (200, "PUT", "/a b", "{}")
    assert (headers[0], headers[-1]) == (["x", "1"], ["content-length", "2"])
    assert "upgrade" not in dict(headers)
    assert wire.closing == (version == b"1.0" or b"close" in offer)


def test_many_offers_in_one_read_are_all_ignored() -> None:
    count = MAX_WAITING_REQUESTS + 1
    wire = asyncio.run(_answered_wholly(REQUESTS["offer"] * count, count))
    assert not wire.closing


async def _answered_wholly(stream: bytes, count: int) -> Wire:
    """A connection whose stream comes in one read, once ``count`` answers have been sent."""
    wire = Wire()
    protocol = connect(wire, EchoApp())
    protocol.data_received(stream)
    async with asyncio.timeout(PATIENCE_SECONDS):
        while wire.sent.count(b"HTTP/1.1 200") < count:
            await asyncio.sleep(0)
    await settle()
    ended_by_server = wire.closing
    protocol.data_received(NEXT)
    await settle()
    protocol.connection_lost(None)
    wire.closing = ended_by_server
    return wire


def test_of_more_requests_than_may_wait_the_last_answered_ends_the_connection() -> None:
    count = MAX_WAITING_REQUESTS + 1
    wire = asyncio.run(_answered_wholly(NEXT * 10 * count, count))
    assert [status for status, _ in wire.answers] == [200] * count
    assert wire.closing
    assert wire.sent.count(b"connection: close") == 1


def test_nothing_is_read_while_requests_wait() -> None:
    async def judge() -> None:
        wire, app = Wire(), EchoApp()
        protocol = connect(wire, app)
        protocol.data_received(b"GET /slow HTTP/1.1\r\n\r\n" + NEXT + b"GET /slow HTTP/1.1\r\n\r\n" + NEXT)
        await settle()
        assert wire.is_paused
        app.released.set()
        while len(wire.answers) < 3:
            assert wire.is_paused
            await asyncio.sleep(0)
        await settle()
        assert len(wire.answers) == 4
        assert not wire.is_paused
        protocol.connection_lost(None)

    asyncio.run(judge())


def test_the_request_that_is_answered_learns_that_its_client_has_left() -> None:
    app = WaitingApp()

    async def judge() -> None:
        protocol = connect(Wire(), app)
        protocol.data_received(NEXT + NEXT)
        await settle()
        assert app.heard == ["http.request"]
        protocol.connection_lost(None)
        await settle()
        assert app.heard == ["http.request", "http.disconnect"]

    asyncio.run(judge())


class WaitingApp:
    """Answers nothing, and listens until its client has left."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    async def __call__(self, _scope: Any, receive: Any, _send: Any) -> None:
        """Serve one ASGI scope."""
        while "http.disconnect" not in self.heard:
            self.heard.append((await receive())["type"])


def test_an_offer_in_words_that_are_no_http_is_refused() -> None:
    wire = asyncio.run(exchange(b"DESCRIBE rtsp://x RTSP/1.0\r\n" + OFFER + b"\r\n"))
    assert [status for status, _ in wire.answers] == [400]
    assert wire.closing


def test_what_follows_a_connect_is_for_no_one() -> None:
    wire = asyncio.run(exchange(b"CONNECT /a HTTP/1.1\r\n\r\n" + NEXT, NEXT))
    assert wire.answers == [(200, echo("CONNECT", "/a", [], b""))]
    assert wire.closing


def test_trailers_are_not_headers() -> None:
    wire = asyncio.run(exchange(REQUESTS["trailers"][:-2], b"x: y\r\n\r\n"))
    assert wire.answers == [(200, echo("POST", "/a", [(b"transfer-encoding", b"chunked")], b"{}"))]


@pytest.mark.parametrize("path", [b"/a", b"/early"])
def test_a_trailer_may_end_the_connection(path: bytes) -> None:
    stream = CHUNKED.replace(b"/a", path) + b"2\r\n{}\r\n0\r\n"
    wire = asyncio.run(exchange(stream, b"Connection: close\r\n\r\n", NEXT))
    assert [status for status, _ in wire.answers] == [200]
    assert wire.closing


@pytest.mark.parametrize(
    ("start", "more", "statuses"),
    [
        (b"GET /a?", b"a", [431]),
        (b"GET /a HTTP/1.1\r\nx: ", b"a", [431]),
        (b"GET /a HTTP/1.1\r\n", b"a: b\r\n", [431]),
        (b"", b"\r\n", [431]),
        (CHUNKED + b"0\r\nx: ", b"a", [431]),
        (CHUNKED + b"0\r\n", b"a: b\r\n", [431]),
        (CHUNKED + b"0\r\n", b"a", [431]),
        (CHUNKED + b"2\r\n{}\r\n1;", b"a", [431]),
        (CHUNKED.replace(b"/a", b"/early") + b"0\r\nx: ", b"a", [200]),
        (NEXT + b"GET /a HTTP/1.1\r\nx: ", b"a", [200, 431]),
    ],
)
def test_what_never_ends_is_refused_before_twice_the_limit_is_read(
    start: bytes, more: bytes, statuses: list[int]
) -> None:
    piece = more * (4096 // len(more))
    wire = asyncio.run(exchange(start, *repeat(piece, 2 * MAX_HEAD_BYTES // len(piece))))
    assert wire.closing
    assert [status for status, _ in wire.answers] == statuses


def test_heads_and_trailers_are_not_added_up() -> None:
    long = b"x: " + b"a" * (MAX_HEAD_BYTES * 2 // 3)
    head, last_chunk = CHUNKED[:-2] + long + b"\r\n\r\n", b"0\r\n" + long
    wire = asyncio.run(exchange(head, last_chunk, b"\r\n\r\n" + NEXT[:-2] + long, b"\r\n\r\n"))
    assert [status for status, _ in wire.answers] == [200, 200]


@pytest.mark.parametrize("path", [b"/a", b"/early"])
def test_what_stands_between_chunks_is_not_added_up(path: bytes) -> None:
    count = MAX_HEAD_BYTES // len(b"1\r\n\r\n") + 1
    chunks = chain.from_iterable(repeat((b"1\r\n", b"x", b"\r\n"), count))

    async def judge() -> None:
        wire = Wire()
        protocol = connect(wire, EchoApp())
        protocol.data_received(CHUNKED.replace(b"/a", path))
        await settle()
        for read in chunks:
            protocol.data_received(read)
        protocol.data_received(b"0\r\n\r\n" + NEXT)
        await settle()
        assert [status for status, _ in wire.answers] == [200, 200]
        protocol.connection_lost(None)

    asyncio.run(judge())


@pytest.mark.parametrize(
    ("refused", "status"),
    [
        ([GARBAGE], 400),
        ([b"GET /a?" + b"a" * MAX_HEAD_BYTES], 431),
        ([CHUNKED + b"zz\r\n"], 400),
        ([CHUNKED, b"0\r\nx: " + b"a" * MAX_HEAD_BYTES, b"a"], 431),
        ([NEXT, NEXT + CHUNKED + b"2\r\n{}zz\r\n"], 400),
    ],
)
def test_a_refused_request_is_answered_in_its_turn(refused: list[bytes], status: int) -> None:
    async def judge() -> None:
        wire, app = Wire(), EchoApp()
        protocol = connect(wire, app)
        for read in (b"GET /slow HTTP/1.1\r\n\r\n", *refused, NEXT):
            protocol.data_received(read)
            await settle()
        assert not wire.sent
        assert not wire.closing
        app.released.set()
        await settle()
        before = [(200, NEXT_ECHO)] * b"".join(refused).count(NEXT)
        assert wire.answers[:-1] == [(200, echo("GET", "/slow", [], b"")), *before]
        assert wire.answers[-1][0] == status
        assert wire.closing
        protocol.connection_lost(None)
        await settle()

    asyncio.run(judge())


def test_a_request_that_turns_out_wrong_is_answered_once() -> None:
    early = CHUNKED.replace(b"/a", b"/early")
    wrong, answered, answered_second = asyncio.run(
        _exchanges([[CHUNKED, b"zz"], [early, b"zz"], [NEXT + early, b"zz"]])
    )
    assert [status for status, _ in wrong.answers] == [400]
    assert [status for status, _ in answered.answers] == [200]
    assert [status for status, _ in answered_second.answers] == [200, 200]
    assert wrong.closing
    assert answered.closing
    assert answered_second.closing


async def _exchanges(histories: list[list[bytes]]) -> list[Wire]:
    return [await exchange(*reads) for reads in histories]
