"""The whole service on a CUDA device: the answers are those of the CPU, device and backend aside."""

import asyncio
from typing import Any

import httpx
import pytest

from service.app import create_app
from service.settings import Settings
from tests.cases import load_cases

ROUTES = ("/plan", "/plan/offsets")


async def answers(device: str) -> list[tuple[int, dict[str, Any]]]:
    """Status and body of every case on every route, as the service on ``device`` gives them."""
    app = create_app(Settings(device=device))
    cases = load_cases("plan") + load_cases("error")
    transport = httpx.ASGITransport(app=app)
    async with app.router.lifespan_context(app), httpx.AsyncClient(transport=transport, base_url="http://kv") as client:
        found = []
        for case in cases:
            for route in ROUTES:
                response = await client.post(route, json=case.request)
                body = response.json()
                assert body.pop("device", device) == device
                body.pop("backend", None)
                body.pop("request_id", None)
                found.append((response.status_code, body))
    return found


@pytest.mark.gpu
def test_a_gpu_and_the_cpu_answer_the_same_json() -> None:
    on_gpu, on_cpu = asyncio.run(answers("cuda:0")), asyncio.run(answers("cpu"))
    assert on_gpu == on_cpu
    assert sum(status == 200 for status, _ in on_gpu) > len(load_cases("plan"))
