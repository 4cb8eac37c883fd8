"""Once the service is ready no request compiles a kernel, whatever its batch, window, capacity or table is like."""

import asyncio
import random
from typing import Any

import pytest

from service.kernels import compile_events
from tests.contract.test_gpu_pools import service_on
from tests.running import InProcess, host_app, in_process

SIZES = (1, 2, 3, 8, 16, 31, 32, 33, 255, 256, 257, 1023, 1024, 1025, 1040, 5000)


def odd_requests() -> list[dict[str, Any]]:
    """Batches of many sizes, over tables, look-up tables and capacities whose sizes are odd, even, 1 and many."""
    chance = random.Random(3)  # noqa: S311
    requests = []
    for bs in SIZES:
        columns = chance.choice([1, 7, 16, 64, 129])
        request: dict[str, Any] = {
            "req_pool_indices": [chance.randrange(3) for _ in range(bs)],
            "prefix_lens": [chance.randint(0, min(columns, 20)) for _ in range(bs)],
            "extend_seq_lens": [chance.randint(0, 3) for _ in range(bs)],
            "req_to_token": [[chance.randrange(50) for _ in range(columns)] for _ in range(3)],
            "verify_capacity": chance.choice([None, 1, 16, 10**6]),
            "write_req_capacity": bs + chance.choice([0, 1, 16]),
        }
        window = {"swa_window_size": chance.choice([1, 8]), "full_to_swa_index_mapping": list(range(50))}
        tokens = {
            "req_to_verify_expected_tokens": request["req_to_token"],
            "req_to_verify_expected_tokens_valid_lens": request["prefix_lens"],
            "kv_token_id_vs_position_offset": chance.choice([0, 1, -16]),
        }
        requests += [request, request | window, request | tokens, request | window | tokens]
    return requests


@pytest.mark.gpu
def test_no_request_compiles_a_kernel() -> None:
    async def counts() -> tuple[int, int]:
        async with service_on("cuda:0") as client:
            for request in odd_requests():
                assert (await client.post("/plan", json=request)).is_success
                assert (await client.post("/plan/offsets", json=request)).is_success
                table = {"req_to_token": request["req_to_token"]}
                assert (await client.put("/pools/p", json=table | {"columns": 100})).is_success
                for start in (None, [5]):
                    segment = {
                        "flat_in": [1, 2, 3],
                        "offsets": [0, 3],
                        "req_pool_indices": [1],
                        "start_positions": start,
                    }
                    assert (await client.post("/pools/p/scatter", json={"req_to_token": segment})).is_success
            info = (await client.get("/info")).json()
            return info["kernels_compiled"], info["kernels_compiled_after_ready"]

    compiled, after_ready = asyncio.run(counts())
    assert compiled > 0
    assert after_ready == 0


def test_the_requests_are_good_ones() -> None:
    with in_process(host_app()) as service:
        for request in odd_requests():
            assert service.post("/plan", json=request).status_code == 200


def _counts(service: InProcess) -> tuple[int, int]:
    info = service.get("/info").json()
    return info["kernels_compiled"], info["kernels_compiled_after_ready"]


def test_what_is_compiled_after_the_warm_up_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    before = compile_events.compiled_kernels()
    with in_process(host_app()) as service:
        service.post("/plan", json=odd_requests()[0])  # waits behind the warm-up
        assert _counts(service) == (before, 0)
        monkeypatch.setattr("service.app.compiled_kernels", lambda: before + 2)
        assert _counts(service) == (before + 2, 2)
