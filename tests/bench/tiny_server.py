"""A server that answers with given bytes, to see what the load generator makes of them."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from service.bench.load import Call, request_bytes

BODY = b'{"n": 1}'
REQUEST = request_bytes("/plan", {"content-type": "application/json"}, BODY)
PATIENCE_SECONDS = 60.0


def ok(body: bytes, *headers: str) -> bytes:
    """A good answer."""
    lines = ["HTTP/1.1 200 OK", f"content-length: {len(body)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


@contextmanager
def tiny_server(answer: Callable[[int], bytes]) -> Iterator[Call]:
    """A call of a server whose n-th answer, counted from 0 over all connections, is ``answer(n)``.

    An empty answer closes the connection. The call expects ``ok``.
    """
    listener = socket.create_server(("127.0.0.1", 0))
    lock = threading.Lock()
    count = 0

    def serve(connection: socket.socket) -> None:
        nonlocal count
        with connection, connection.makefile("rb") as reader:
            while reader.read(len(REQUEST)) == REQUEST:
                with lock:
                    number, count = count, count + 1
                content = answer(number)
                if not content:
                    return
                connection.sendall(content)

    def accept() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=_until_the_other_end_closes, args=(serve, connection), daemon=True).start()

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    try:
        yield Call(listener.getsockname()[1], REQUEST, b"ok")
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(PATIENCE_SECONDS)


def _until_the_other_end_closes(serve: Callable[[socket.socket], None], connection: socket.socket) -> None:
    try:
        serve(connection)
    except ConnectionError:
        return
