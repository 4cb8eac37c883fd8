"""The bare servers: one gives the body back, the other keeps nothing of it."""

import asyncio
from typing import Any

import pytest

from service.bench.baselines import DRAINED, drain, echo


def answer(app: Any, *parts: bytes) -> list[dict[str, Any]]:
    """What an application sends for a body in parts."""
    messages = [{"type": "http.request", "body": part, "more_body": True} for part in parts] + [
        {"type": "http.request"}
    ]
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return messages.pop(0)

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    asyncio.run(app({"type": "http"}, receive, send))
    assert not messages
    return sent


@pytest.mark.parametrize(("app", "body"), [(echo, b"abcd"), (drain, DRAINED)])
def test_a_body_in_parts_is_read_to_its_end(app: Any, body: bytes) -> None:
    start, content = answer(app, b"ab", b"", b"cd")
    assert (start["status"], content["body"]) == (200, body)
    assert (b"content-length", str(len(body)).encode()) in start["headers"]
