"""The HTTP parser of the server: refusals are problems, what waits is bounded, upgrades ignored, stalls end. Knows no
route.
"""

import asyncio
from collections.abc import Collection

import httptools
from uvicorn._types import ASGI3Application
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from service.errors import Refusal, refusal
from service.http.problems import problem_response, status_of
from service.http.raw import BODY_AT_HAND
from service.http.request_id import new_request_id

MAX_HEAD_BYTES = 64 * 1024
MAX_WAITING_REQUESTS = 128
_REASONS = {400: b"Bad Request", 431: b"Request Header Fields Too Large"}


class _FlowControl(FlowControl):
    """uvicorn's, which reads nothing while requests are ``waiting``; each would have more read when it begins."""

    def __init__(self, transport: asyncio.Transport, waiting: Collection[object]) -> None:
        super().__init__(transport)
        self._waiting = waiting

    def resume_reading(self) -> None:
        """Read on, unless requests wait."""
        if not self._waiting:
            super().resume_reading()


class ProblemProtocol(HttpToolsProtocol):
    """uvicorn's parser with five changes.

    What it cannot parse is answered as a problem, in its turn. The request line and headers of a request may not exceed
    ``MAX_HEAD_BYTES`` (by more than one read), nor may the trailers after its body, which are ignored. An offer to
    upgrade is ignored, as RFC 9110 allows; the parser would take the request's body for the first bytes of the other
    protocol. A connection ends that for the keep-alive time brings no whole head, or takes nothing of its answer.
    Nothing is read while requests wait for the answer to one before them, and of those that one read brings no more
    than ``MAX_WAITING_REQUESTS`` wait: the last of these is answered with the end of the connection.
    """

    _in_head = True
    _head_bytes = 0
    """Bytes read since the last that ended a head, ended a request or belonged to a body."""
    _refusal: Refusal | None = None
    _is_full = False
    _running: RequestResponseCycle | None = None
    """The request that is being answered, while ``cycle`` is the one that is being read."""
    _reader_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as uvicorn has it
        """A client has connected."""
        super().connection_made(transport)
        self.flow = _FlowControl(transport, self.pipeline)
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection has ended."""
        super().connection_lost(exc)
        if self._running is not None and not self._running.response_complete:
            self._running.disconnected = True
            self._running.message_event.set()
        self._unset_keepalive_if_required()
        self._forget_reader()

    def data_received(self, data: bytes) -> None:
        """Take bytes from the connection."""
        if self._refusal is not None or self._is_full:
            return
        self._head_bytes += len(data)
        try:
            self._parse(data)
        except httptools.HttpParserError:
            if self._is_full:
                return
            self.logger.warning("Invalid HTTP request received.")
            self._refuse(refusal("bad-request"))
            return
        if self._head_bytes > MAX_HEAD_BYTES:
            self._refuse(refusal("headers-too-large", limit=MAX_HEAD_BYTES))
        elif not self._head_bytes and self.timeout_keep_alive_task is not None:
            self._await_head()  # these were bytes of a request that was answered without them

    def _parse(self, data: bytes) -> None:
        """Feed the parser; where it stops at an offer to upgrade, go on behind the head as if there were none."""
        rest: bytes | memoryview = data
        while rest:
            try:
                self.parser.feed_data(rest)
            except httptools.HttpParserUpgrade as stop:
                if not self._is_offer():
                    self.cycle.keep_alive = False  # what follows a CONNECT is for a tunnel that there is not
                    return
                self._parse_head_without_offer()
                rest = memoryview(rest)[stop.args[0] :]  # a copy for each of many offers would take quadratic time
            else:
                return

    def _parse_head_without_offer(self) -> None:
        version = self.parser.get_http_version().encode()
        head = [self.parser.get_method(), b" ", self.url, b" HTTP/", version, b"\r\n"]
        for name, value in self.headers:
            if name != b"upgrade":
                head += name, b": ", value, b"\r\n"
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn does
        self.parser.feed_data(b"".join(head) + b"\r\n")

    def _is_offer(self) -> bool:
        return self.parser.should_upgrade() and self.parser.get_method() != b"CONNECT"

    def on_headers_complete(self) -> None:
        """The head of a request has been read; one that offers to upgrade will be read again."""
        if self._is_offer():
            return
        self._unset_keepalive_if_required()
        if len(self.pipeline) == MAX_WAITING_REQUESTS:
            self._is_full = True
            self.cycle.keep_alive = False
            raise BufferError  # ends the parsing
        super().on_headers_complete()
        self._in_head = False
        self._head_bytes = 0
        self.headers = []  # trailers go here, no longer into the request

    def on_body(self, body: bytes) -> None:
        """Bytes of a body have been read."""
        self._head_bytes = 0
        HttpToolsProtocol.on_body(self, body)  # a body may be many small chunks, and super() costs as much as this

    def on_message_complete(self) -> None:
        """A request has been read to its end; what follows is the head of another, counted from the next read on."""
        if self._in_head:  # it offers to upgrade
            return
        self._in_head = True
        self._head_bytes = 0
        self.scope[BODY_AT_HAND] = True  # type: ignore[literal-required]
        super().on_message_complete()
        if self.cycle.keep_alive and not self.parser.should_keep_alive():  # a trailer says so, and the parser stops
            self.cycle.keep_alive = False
            if self.cycle.response_complete:
                self.transport.close()
                self._watch_reader()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        self._running = cycle
        super()._start_asgi_task(cycle, app)

    def on_response_complete(self) -> None:
        """A request has been answered, if only into the buffer of the connection."""
        super().on_response_complete()
        if self.transport.is_closing():
            self._watch_reader()
            return
        self.flow.resume_reading()  # if the last that waited has its turn now
        if self._refusal is not None:
            self._answer_refusal(self._refusal)

    def _refuse(self, error: Refusal) -> None:
        """Read no more, answer the request that is being read with a problem in its turn, and close the connection."""
        self._refusal = error
        self._answer_refusal(error)

    def _answer_refusal(self, error: Refusal) -> None:
        if self.pipeline or (self._in_head and self.cycle is not None and not self.cycle.response_complete):
            return  # requests that came before are to be answered first
        if self._in_head or not self.cycle.response_started:
            self.transport.write(_answer_bytes(error))
        self.transport.close()
        self._watch_reader()

    def _await_head(self) -> None:
        """From now on the client has the keep-alive time to send a whole head."""
        self._unset_keepalive_if_required()
        self.timeout_keep_alive_task = self.loop.call_later(self.timeout_keep_alive, self.timeout_keep_alive_handler)

    def timeout_keep_alive_handler(self) -> None:
        """No whole head has come in time."""
        super().timeout_keep_alive_handler()
        self._watch_reader()

    def pause_writing(self) -> None:
        """The client does not read as fast as answers are written."""
        super().pause_writing()
        self._watch_reader()

    def resume_writing(self) -> None:
        """The client has read most of what was written."""
        super().resume_writing()
        if not self.transport.is_closing():
            self._forget_reader()

    def _watch_reader(self) -> None:
        """End the connection when for the keep-alive time its client takes nothing of what is still to be sent.

        Only for a connection that writes nothing meanwhile, being paused or closing.
        """
        if self._reader_timer is None and self in self.connections:
            unsent_bytes = self.transport.get_write_buffer_size()
            self._reader_timer = self.loop.call_later(self.timeout_keep_alive, self._judge_reader, unsent_bytes)

    def _judge_reader(self, unsent_bytes_before: int) -> None:
        self._reader_timer = None
        if self.transport.get_write_buffer_size() < unsent_bytes_before:
            self._watch_reader()
        else:
            self.transport.abort()

    def _forget_reader(self) -> None:
        if self._reader_timer is not None:
            self._reader_timer.cancel()
            self._reader_timer = None


def _answer_bytes(error: Refusal) -> bytes:
    """A whole answer that refuses a request and says that the connection is going to be closed."""
    status = status_of(error.code)
    response = problem_response(error, new_request_id())
    headers = b"".join(name + b": " + value + b"\r\n" for name, value in response.raw_headers)
    start = b"HTTP/1.1 %d %s\r\n" % (status, _REASONS[status])
    return start + headers + b"connection: close\r\n\r\n" + response.body
