"""Sends worked examples through the whole stack, without a socket, and compares the answers with the known ones."""

import asyncio

import httpx
from fastapi import FastAPI
from rich.console import Console
from rich.table import Table

from service.http.examples import WORKED_EXAMPLES, WorkedExample
from service.runtime.engine import WARM_UP_FAILED

_READY_ATTEMPTS = 1200
_READY_PAUSE_SECONDS = 0.1


def run_selftest(app: FastAPI, console: Console) -> int:
    """How many checks failed: the warm-up and each worked example. Prints a line for each, with its stage times."""
    return asyncio.run(_run(app, console))


async def _run(app: FastAPI, console: Console) -> int:
    table = Table("check", "result", "stages (ms)")
    failures = 0
    transport = httpx.ASGITransport(app=app)
    async with app.router.lifespan_context(app), httpx.AsyncClient(transport=transport, base_url="http://kv") as client:
        warm = await _is_warm(client)
        failures += not warm
        table.add_row("warm-up", "right" if warm else "WRONG", "")
        info = (await client.get("/info")).json()
        for example in WORKED_EXAMPLES:
            response = await client.post("/plan", json=example.request)
            right = _is_right(example, response)
            failures += not right
            table.add_row(example.name, "right" if right else "WRONG", response.headers.get("server-timing", ""))
    console.print(f"device {info['device']} ({info['device_description']}), backend {info['backend']}", highlight=False)
    console.print(table)
    return failures


async def _is_warm(client: httpx.AsyncClient) -> bool:
    """Whether the warm-up ended well, once it has ended."""
    for _ in range(_READY_ATTEMPTS):
        readiness = await client.get("/readyz")
        if readiness.is_success or readiness.json()["detail"].endswith(WARM_UP_FAILED):
            return readiness.is_success
        await asyncio.sleep(_READY_PAUSE_SECONDS)
    return False


def _is_right(example: WorkedExample, response: httpx.Response) -> bool:
    answer = response.json()
    return response.is_success and all(answer.get(name) == value for name, value in example.response.items())
