"""The HTTP parser of the server: its own refusals are problems, heads are bounded, upgrades ignored. Knows no route."""

import re

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from service.errors import Refusal, refusal
from service.http.problems import problem_response, status_of
from service.http.request_id import new_request_id

MAX_HEAD_BYTES = 64 * 1024
_HEAD_END = b"\r\n\r\n"
_UPGRADE = re.compile(rb"\r\nupgrade:[^\r\n]*", re.IGNORECASE)
_REASONS = {400: b"Bad Request", 431: b"Request Header Fields Too Large"}


class ProblemProtocol(HttpToolsProtocol):
    """uvicorn's parser with three changes.

    What it cannot parse is answered as a problem. The request line and headers of a request may not exceed
    ``MAX_HEAD_BYTES`` (by more than one read). An offer to upgrade is ignored, as RFC 9110 allows; the parser
    would take the request's body for the first bytes of the other protocol.
    """

    _in_head = True
    _head_bytes = 0
    _read_bytes = 0

    def data_received(self, data: bytes) -> None:
        """Take bytes from the connection."""
        if self._in_head:
            data = _without_upgrade(data)
        self._read_bytes = len(data)
        super().data_received(data)
        if self._in_head and not self.transport.is_closing():
            self._head_bytes += len(data)
            if self._head_bytes > MAX_HEAD_BYTES:
                self._refuse(refusal("headers-too-large", limit=MAX_HEAD_BYTES))

    def on_headers_complete(self) -> None:
        """The head of a request has been read."""
        self._in_head = False
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """A request has been read to its end; what follows is the head of another, counted from the next read on."""
        self._in_head = True
        self._head_bytes = -self._read_bytes
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - the log has the parser's words
        """Answer a request that cannot be parsed and close the connection."""
        self._refuse(refusal("bad-request"))

    def _refuse(self, error: Refusal) -> None:
        status = status_of(error.code)
        response = problem_response(error, new_request_id())
        headers = b"".join(name + b": " + value + b"\r\n" for name, value in response.raw_headers)
        start = b"HTTP/1.1 %d %s\r\n" % (status, _REASONS[status])
        self.transport.write(start + headers + b"connection: close\r\n\r\n" + response.body)
        self.transport.close()


def _without_upgrade(data: bytes) -> bytes:
    """The same bytes of a head, and of what follows it, without the Upgrade header."""
    if b"pgrade:" not in data and b"PGRADE:" not in data:  # looked for before the bytes are copied apart
        return data
    head, end, rest = data.partition(_HEAD_END)
    return _UPGRADE.sub(b"", head) + end + rest
