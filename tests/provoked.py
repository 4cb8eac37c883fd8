"""What meets each error of the catalogue: a call in process, a body, or a situation around the body."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import httpx
import pytest
import torch
from starlette.types import Receive, Scope, Send

from service.http.envelope import EnvelopeMiddleware
from service.plan import PlanInputs, VerifyPlan, WritePlan, launch_canary_plan_kernels, require_same_device
from service.plan import launch_scatter_req_token_ids_kernel as launch_scatter
from service.runtime.computer import PlanComputer
from service.runtime.operations import Compute
from service.spec import FieldSpec, FlagSpec, ObjectSpec, ObjectsSpec, TextSpec
from service.wire.json_body import decode_any_body
from tests.problems import require_problem
from tests.running import GOOD_REQUEST, PATIENCE_SECONDS, host_app, in_process, on_socket


def _int64(*values: int) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int64)


def _launch(verify_capacity: int = 4, **changes: object) -> None:
    fields: dict[str, Any] = {
        "req_pool_indices": _int64(1),
        "prefix_lens": _int64(2),
        "extend_seq_lens": _int64(1),
        "req_to_token": torch.zeros((2, 3), dtype=torch.int32),
    }
    launch_canary_plan_kernels(
        verify_plan_out=VerifyPlan.allocate(verify_capacity=4, device="cpu"),
        write_plan_out=WritePlan.allocate(write_req_capacity=1, device="cpu"),
        verify_capacity=verify_capacity,
        **fields | changes,
    )


def _scatter(**changes: torch.Tensor) -> None:
    fields: dict[str, Any] = {
        "flat_in": _int64(7, 8),
        "offsets": _int64(0, 1, 2),
        "req_pool_indices": _int64(0, 1),
        "pool_out": torch.zeros((2, 3), dtype=torch.int32),
    }
    launch_scatter(**fields | changes)


def _other_device() -> None:
    require_same_device(_int64(1), "req_pool_indices", [(_int64(1).to("meta"), "prefix_lens")])


def _launch_on_meta() -> None:
    meta = torch.device("meta")
    launch_canary_plan_kernels(
        verify_plan_out=VerifyPlan.allocate(verify_capacity=4, device=meta),
        write_plan_out=WritePlan.allocate(write_req_capacity=1, device=meta),
        verify_capacity=4,
        req_pool_indices=_int64(1).to(meta),
        prefix_lens=_int64(1).to(meta),
        extend_seq_lens=_int64(1).to(meta),
        req_to_token=torch.zeros((2, 3), dtype=torch.int32, device=meta),
    )


OBJECT_FIELDS: tuple[FieldSpec, ...] = (
    TextSpec("pool", "", ".*"),
    FlagSpec("use", "", default=True),
    ObjectSpec("plan", (), ""),
    ObjectsSpec("groups", (), "", most=1),
)


def _decode(body: bytes) -> None:
    decode_any_body(body, OBJECT_FIELDS)


IN_PROCESS: dict[str, Callable[[], None]] = {
    "not-a-tensor": lambda: _launch(prefix_lens=[2]),
    "unsupported-device": _launch_on_meta,
    "not-contiguous": lambda: _launch(req_to_token=torch.zeros((3, 2), dtype=torch.int32).T),
    "wrong-dtype": lambda: _launch(prefix_lens=torch.tensor([2], dtype=torch.int32)),
    "verify-capacity-mismatch": lambda: _launch(verify_capacity=5),
    "device-mismatch": _other_device,
    "scatter-wrong-dtype": lambda: _scatter(flat_in=torch.tensor([7, 8], dtype=torch.int32)),
    "scatter-wrong-rank": lambda: _scatter(pool_out=torch.zeros(6, dtype=torch.int32)),
    "scatter-offsets-length": lambda: _scatter(offsets=_int64(0, 2)),
    "scatter-offsets-invalid": lambda: _scatter(offsets=_int64(0, 3, 2)),
    "scatter-row-outside-pool": lambda: _scatter(req_pool_indices=_int64(0, 2)),
    "scatter-duplicate-row": lambda: _scatter(req_pool_indices=_int64(1, 1)),
    "scatter-start-outside-pool": lambda: _scatter(start_positions=_int64(0, 4)),
    "not-a-string": lambda: _decode(b'{"groups": {"a": {}}, "pool": 7}'),
    "text-too-long": lambda: _decode(b'{"groups": {"a": {}}, "pool": "' + b"x" * 65 + b'"}'),
    "not-a-boolean": lambda: _decode(b'{"groups": {"a": {}}, "use": 0}'),
    "not-an-object": lambda: _decode(b'{"groups": {"a": {}}, "plan": []}'),
    "no-objects": lambda: _decode(b'{"groups": {}}'),
    "too-many-objects": lambda: _decode(b'{"groups": {"a": {}, "b": {}}}'),
    "object-name-invalid": lambda: _decode(b'{"groups": {"0": {}}}'),
}
"""Errors that POST /plan cannot meet and that are raised in process, and what meets them."""

TOKENS = {"req_to_verify_expected_tokens": [[0, 0], [7, 8]], "req_to_verify_expected_tokens_valid_lens": [2]}
BODIES: dict[str, dict[str, Any] | bytes] = {
    "window-requires-lut": {"swa_window_size": 1},
    "expected-tokens-require-valid-lens": {"req_to_verify_expected_tokens": [[0], [7]]},
    "wrong-rank": {"prefix_lens": [[2]]},
    "wrong-length": {"prefix_lens": [2, 2]},
    "too-short": {"full_to_swa_index_mapping": []},
    "verify-capacity-not-positive": {"verify_capacity": 0},
    "write-req-capacity-not-positive": {"write_req_capacity": 0},
    "batch-exceeds-write-req-capacity": {
        "req_pool_indices": [1, 0],
        "prefix_lens": [2, 0],
        "extend_seq_lens": [1, 0],
        "write_req_capacity": 1,
    },
    "row-outside-table": {"req_pool_indices": [2]},
    "row-outside-expected-tokens": TOKENS | {"req_to_verify_expected_tokens": [[7, 8]]},
    "prefix-exceeds-columns": {"prefix_lens": [4]},
    "valid-len-exceeds-columns": TOKENS | {"req_to_verify_expected_tokens_valid_lens": [3]},
    "extend-sum-overflow": {
        "req_pool_indices": [1, 1],
        "prefix_lens": [0, 0],
        "extend_seq_lens": [2**63 - 1, 1],
    },
    "slot-outside-lut": {"full_to_swa_index_mapping": [0, 1, 2, 3, 4, 5]},
    "value-does-not-fit": {"req_to_token": [[0], [2**31]]},
    "not-an-integer": {"prefix_lens": [2.0]},
    "not-an-array": {"req_to_token": [[0, 0], 5]},
    "ragged-rows": {"req_to_token": [[0, 0], [5]]},
    "missing-field": b"{}",
    "unknown-field": {"prefix_len": [2]},
    "duplicate-field": b'{"prefix_lens": [1], "prefix_lens": [1]}',
    "body-not-object": b"[]",
    "malformed-json": b"{",
    "nesting-too-deep": b'{"prefix_lens": ' + b"[" * 100,
    "body-too-large": b" " * 2001,
    "batch-too-large": {"write_req_capacity": 9},
    "table-too-large": {"req_to_token": [[0] * 10, [0] * 10]},
    "plan-too-large": {"req_pool_indices": [1, 1, 1], "prefix_lens": [3, 3, 3], "extend_seq_lens": [1, 1, 1]},
}
"""Errors of POST /plan: the body, or what is changed in a good one."""


def _failing(error: Exception) -> Compute:
    def compute(_inputs: Sequence[PlanInputs], _with_entries: bool) -> Any:
        raise error

    return compute


def _provoke(code: str, compute: Compute | None = None, **settings: Any) -> None:
    with in_process(host_app(compute, **settings)) as service:
        require_problem(service.post("/plan", json=GOOD_REQUEST), code)


def _provoke_late(code: str, **settings: Any) -> None:
    """Meet an error that needs a device that is busy for as long as anyone waits."""
    free, busy = threading.Event(), threading.Event()

    def compute(_inputs: Sequence[PlanInputs], _with_entries: bool) -> Any:
        busy.set()
        assert free.wait(PATIENCE_SECONDS)

    with in_process(host_app(compute, **settings)) as service:
        first = service.start_plan()
        if code == "deadline-exceeded":
            response = first.result(PATIENCE_SECONDS)
        else:
            assert busy.wait(PATIENCE_SECONDS)
            response = service.start_plan().result(PATIENCE_SECONDS)
        free.set()
        require_problem(response, code)


def _provoke_media(code: str, header: str) -> None:
    with in_process(host_app()) as service:
        require_problem(service.post_plan(b"{}", **{header: "x"}), code)


def _provoke_address(code: str, path: str) -> None:
    with in_process(host_app()) as service:
        require_problem(service.get(path), code)


def _provoke_not_ready() -> None:
    with pytest.MonkeyPatch.context() as patched:
        never_warm = threading.Event()
        patched.setattr(PlanComputer, "warm_up", lambda _: never_warm.wait(PATIENCE_SECONDS))
        with in_process(host_app()) as service:
            require_problem(service.get("/readyz"), "not-ready")
            never_warm.set()


def _provoke_bad_request() -> None:
    with in_process(host_app()) as service:
        asset = service.get("/static-offline-docs/swagger-ui.css", headers={"range": "bytes=abc"})
        require_problem(asset, "bad-request")


def _provoke_headers() -> None:
    with on_socket(host_app()) as client:
        require_problem(client.get("/livez", headers={"x-long": "a" * 2**20}), "headers-too-large")


def _provoke_stalled_body() -> None:
    async def stalls() -> AsyncIterator[bytes]:
        yield b"{"
        await asyncio.Event().wait()

    with in_process(host_app(body_timeout_seconds=0.01)) as service:
        require_problem(service.post("/plan", content=stalls()), "body-timeout")


def _provoke_stop() -> None:
    async def cancelled(_scope: Scope, _receive: Receive, _send: Send) -> None:
        raise asyncio.CancelledError

    async def ask() -> httpx.Response:
        transport = httpx.ASGITransport(EnvelopeMiddleware(cancelled))
        async with httpx.AsyncClient(transport=transport, base_url="http://service") as client:
            return await client.get("/plan")

    require_problem(asyncio.run(ask()), "shutting-down")


SITUATIONS: dict[str, Callable[[], None]] = {
    "headers-too-large": _provoke_headers,
    "body-timeout": _provoke_stalled_body,
    "shutting-down": _provoke_stop,
    "unsupported-media-type": lambda: _provoke_media("unsupported-media-type", "content-type"),
    "unsupported-content-encoding": lambda: _provoke_media("unsupported-content-encoding", "content-encoding"),
    "queue-full": lambda: _provoke_late("queue-full", max_queued_requests=1),
    "deadline-exceeded": lambda: _provoke_late("deadline-exceeded", deadline_seconds=0.05),
    "out-of-memory": lambda: _provoke("out-of-memory", _failing(MemoryError())),
    "internal-error": lambda: _provoke("internal-error", _failing(RuntimeError())),
    "not-ready": _provoke_not_ready,
    "not-found": lambda: _provoke_address("not-found", "/nothing"),
    "method-not-allowed": lambda: _provoke_address("method-not-allowed", "/plan"),
    "bad-request": _provoke_bad_request,
}
"""Errors that come from around the body, and what meets them."""
