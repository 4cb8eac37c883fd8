"""Pools and groups on a CUDA device: the answers are those of the CPU, and in the steady state nothing is allocated."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
import torch

from service.app import create_app
from service.settings import Settings
from tests.cases import load_cases

TABLES = ("req_to_token", "full_to_swa_index_mapping", "req_to_verify_expected_tokens")
UNSTABLE = ("device", "backend", "request_id", "pool_version", "version")
ROWS, COLUMNS, SLOTS = 9, 40, 500


@asynccontextmanager
async def service_on(device: str) -> AsyncIterator[httpx.AsyncClient]:
    """The service on ``device``, ready."""
    app = create_app(Settings(device=device))
    transport = httpx.ASGITransport(app=app)
    async with app.router.lifespan_context(app), httpx.AsyncClient(transport=transport, base_url="http://kv") as client:
        while not (await client.get("/readyz")).is_success:
            await asyncio.sleep(0.01)
        yield client


def stable(response: httpx.Response) -> tuple[int, dict[str, Any]]:
    """Status and body, without what differs from device to device and from time to time."""
    return response.status_code, {name: value for name, value in response.json().items() if name not in UNSTABLE}


async def answers_over_pools(device: str) -> list[tuple[int, dict[str, Any]]]:
    """Every case, its tables put into a pool first."""
    found = []
    async with service_on(device) as client:
        for case in load_cases("plan") + load_cases("error"):
            tables = {name: value for name, value in case.request.items() if name in TABLES}
            batch = {name: value for name, value in case.request.items() if name not in TABLES}
            found.append(stable(await client.put("/pools/case", json=tables)))
            found.append(stable(await client.post("/plan", json=batch | {"pool": "case"})))
    return found


def random_steps(seed: int) -> list[dict[str, Any]]:
    """Bodies of steps that change cells of all three tables, and then plan; some of them are refused."""
    chance = random.Random(seed)  # noqa: S311

    def segments(most: int) -> dict[str, Any]:
        rows = chance.sample(range(ROWS), chance.randint(0, ROWS))
        lens = [chance.randint(0, COLUMNS // 2) for _ in rows]
        return {
            "flat_in": [chance.randrange(most) for _ in range(sum(lens))],
            "offsets": [sum(lens[:i]) for i in range(len(lens) + 1)],
            "req_pool_indices": rows,
            "start_positions": [chance.randint(0, COLUMNS) for _ in rows],
        }

    def step() -> dict[str, Any]:
        cells = chance.sample(range(SLOTS), 20)
        bs = chance.choice([0, 1, 5, 33, 300])
        return {
            "scatter": {
                "req_to_token": segments(SLOTS + 9 * (chance.random() < 0.2)),
                "req_to_verify_expected_tokens": segments(2**31),
                "full_to_swa_index_mapping": {"indices": cells, "values": [chance.randrange(2**60) for _ in cells]},
            },
            "plan": {
                "req_pool_indices": [chance.randrange(ROWS) for _ in range(bs)],
                "prefix_lens": [chance.randint(0, COLUMNS + (chance.random() < 0.001)) for _ in range(bs)],
                "extend_seq_lens": [chance.randint(-1, 3) for _ in range(bs)],
                "req_to_verify_expected_tokens_valid_lens": [chance.randint(0, COLUMNS) for _ in range(bs)],
                "swa_window_size": chance.choice([0, 1, 7]),
            },
        }

    return [step() for _ in range(60)]


async def answers_to_steps(device: str) -> list[tuple[int, dict[str, Any]]]:
    """The answers to random steps, and what groups then see of the pool."""
    tables = {"req_to_token": [], "req_to_verify_expected_tokens": [], "rows": ROWS, "columns": COLUMNS}
    found = []
    async with service_on(device) as client:
        await client.put("/pools/steps", json=tables | {"full_to_swa_index_mapping": list(range(SLOTS))})
        for body in random_steps(7):
            found.append(stable(await client.post("/pools/steps/step", json=body)))
            groups = {"swa": {"swa_window_size": 3}, "full": {"use_full_to_swa_index_mapping": False}}
            batch = {name: value for name, value in body["plan"].items() if name != "swa_window_size"}
            found.append(stable(await client.post("/plan/groups", json=batch | {"pool": "steps", "groups": groups})))
    return found


@pytest.mark.gpu
def test_over_pools_a_gpu_and_the_cpu_answer_the_same_json() -> None:
    on_gpu, on_cpu = asyncio.run(answers_over_pools("cuda:0")), asyncio.run(answers_over_pools("cpu"))
    assert on_gpu == on_cpu
    assert sum(status == 200 for status, _ in on_gpu) > len(load_cases("plan"))


@pytest.mark.gpu
def test_after_the_same_steps_a_gpu_and_the_cpu_have_the_same_tables() -> None:
    on_gpu, on_cpu = asyncio.run(answers_to_steps("cuda:0")), asyncio.run(answers_to_steps("cpu"))
    assert on_gpu == on_cpu
    statuses = [status for status, _ in on_gpu]
    assert {200, 422} == set(statuses)


def test_random_steps_are_accepted_and_refused_on_the_cpu_too() -> None:
    statuses = [status for status, _ in asyncio.run(answers_to_steps("cpu"))]
    assert {200, 422} == set(statuses)


@pytest.mark.gpu
def test_a_plan_over_a_pool_allocates_nothing_on_the_device_in_the_steady_state() -> None:
    async def allocations() -> list[int]:
        counts = []
        async with service_on("cuda:0") as client:
            await client.put("/pools/p", json={"req_to_token": [], "rows": 64, "columns": 1024})
            for number in range(20):
                bs = 1 + number % 7
                batch = {"req_pool_indices": [1] * bs, "prefix_lens": [100 - number] * bs, "extend_seq_lens": [1] * bs}
                assert (await client.post("/plan", json=batch | {"pool": "p"})).is_success
                counts.append(torch.cuda.memory_stats("cuda:0")["allocation.all.allocated"])
        return counts

    counts = asyncio.run(allocations())
    assert counts[-1] == counts[9]
