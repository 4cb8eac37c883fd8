"""The least that a server can do, as pure ASGI applications: what they reach is the ceiling of any service here."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

DRAINED = b"{}"


async def echo(_: Message, receive: Receive, send: Send) -> None:
    """Answer with the request's body."""
    parts = []
    async for part in _body(receive):
        parts.append(part)  # noqa: PERF401 - extend takes no asynchronous iterator
    await _answer(send, b"".join(parts))


async def drain(_: Message, receive: Receive, send: Send) -> None:
    """Read the request's body, keep nothing of it, answer with two bytes."""
    async for _part in _body(receive):
        pass
    await _answer(send, DRAINED)


async def _body(receive: Receive) -> Any:
    more = True
    while more:
        message = await receive()
        yield message.get("body", b"")
        more = message.get("more_body", False)


async def _answer(send: Send, body: bytes) -> None:
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})
