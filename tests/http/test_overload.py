"""What happens when a plan is slow, fails, finds no memory, or comes before the device is ready."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import pytest
import torch

from service.kernels.backend import Target, backend_named
from service.plan.inputs import PlanInputs
from service.plan.planner import Plan
from service.plan.transfer import Workspace
from service.runtime.computer import PlanComputer, PlanLimits
from service.runtime.operations import Compute
from tests.problems import require_good_plan, require_problem
from tests.running import GOOD_REQUEST, PATIENCE_SECONDS, host_app, in_process

compute_right = PlanComputer(
    Workspace(Target(torch.device("cpu"), backend_named("host"))), PlanLimits(10**6, 10**6, 10**6)
)


class HeldCompute:
    """A compute that says when it has begun and goes on when it is let."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.let = threading.Event()
        self.calls = 0

    def __call__(self, inputs: Sequence[PlanInputs], with_entries: bool) -> list[Plan[Any]]:
        self.calls += 1
        self.begun.set()
        assert self.let.wait(PATIENCE_SECONDS)
        return compute_right(inputs, with_entries)


def failing_once(error: BaseException) -> Compute:
    """A compute whose first call raises ``error``; later ones are right."""
    errors = [error]

    def compute(inputs: Sequence[PlanInputs], with_entries: bool) -> list[Plan[Any]]:
        if errors:
            raise errors.pop()
        return compute_right(inputs, with_entries)

    return compute


def test_more_plans_than_may_wait_are_turned_away_at_once_and_may_come_back() -> None:
    held = HeldCompute()
    with in_process(host_app(held, max_queued_requests=2)) as service:
        running, waiting = service.start_plan(), service.start_plan()
        assert held.begun.wait(PATIENCE_SECONDS)

        turned_away = service.start_plan().result(PATIENCE_SECONDS)

        assert turned_away.status_code == 429
        assert int(turned_away.headers["retry-after"]) >= 1
        words = "2 requests are already in progress (KV_PLAN_MAX_QUEUED_REQUESTS)"
        assert require_problem(turned_away, "queue-full") == words
        assert service.get("/livez").status_code == service.get("/readyz").status_code == 200
        held.let.set()
        assert [answer.result(PATIENCE_SECONDS).status_code for answer in (running, waiting)] == [200, 200]
        require_good_plan(service)
        assert held.calls == 3


def test_a_plan_that_takes_too_long_is_given_up_and_frees_its_place() -> None:
    held = HeldCompute()
    with in_process(host_app(held, max_queued_requests=1, deadline_seconds=0.05)) as service:
        late = service.start_plan().result(PATIENCE_SECONDS)
        while not held.begun.is_set():  # given up before the device came to it
            late = service.start_plan().result(PATIENCE_SECONDS)

        assert late.status_code == 504
        words = "the plan was not ready within 0.05 seconds (KV_PLAN_DEADLINE_SECONDS)"
        assert require_problem(late, "deadline-exceeded") == words
        behind_it = service.start_plan().result(PATIENCE_SECONDS)
        assert behind_it.status_code == 504, "admitted, though the device is still busy"
        held.let.set()
    assert held.calls == 1, "a plan that nobody waits for any more is not computed"


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 4000000000000000 bytes."),
    ],
)
def test_a_plan_that_finds_no_memory_may_be_tried_again(error: Exception) -> None:
    with in_process(host_app(failing_once(error))) as service:
        response = service.start_plan().result(PATIENCE_SECONDS)

        assert response.status_code == 503
        assert int(response.headers["retry-after"]) >= 1
        words = "cpu has not enough free memory for this request"
        assert require_problem(response, "out-of-memory") == words
        require_good_plan(service)


@pytest.mark.parametrize("kind", [RuntimeError, ValueError, KeyError, TimeoutError])
def test_a_defect_is_a_500_whose_cause_is_in_the_log_alone(
    kind: type[Exception], caplog: pytest.LogCaptureFixture
) -> None:
    with in_process(host_app(failing_once(kind("kv-canary: Zq7secret")))) as service:
        response = service.post_plan(b'{"req_pool_indices":[],"prefix_lens":[],"extend_seq_lens":[],"req_to_token":[]}')

        assert response.status_code == 500
        require_problem(response, "internal-error")
        assert "Zq7secret" not in response.text
        require_good_plan(service)
    request_id = response.json()["request_id"]
    assert [record.getMessage() for record in caplog.records] == [f"request {request_id} failed"]
    assert "Zq7secret" in caplog.text


def test_a_plan_waits_behind_the_warm_up_and_readiness_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    warm = threading.Event()
    monkeypatch.setattr(PlanComputer, "warm_up", lambda _: warm.wait(PATIENCE_SECONDS))
    with in_process(host_app()) as service:
        plan = service.start_plan()
        early = service.get("/readyz")
        alive = service.get("/livez")
        assert not plan.done()

        warm.set()

        assert plan.result(PATIENCE_SECONDS).status_code == 200
        assert service.get("/readyz").json() == {"status": "ready"}
    assert early.status_code == 503
    assert require_problem(early, "not-ready") == "the service is not ready: the kernels are being warmed up"
    assert alive.json() == {"status": "alive"}


@pytest.mark.parametrize("error", [RuntimeError("no device"), torch.OutOfMemoryError("no memory")])
def test_a_failed_warm_up_keeps_the_service_unready_and_is_logged(
    error: Exception, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(PlanComputer, "warm_up", _raiser(error))
    with in_process(host_app()) as service:
        require_good_plan(service)  # behind the warm-up, so that it is over

        readiness = service.get("/readyz")

        assert readiness.status_code == 503
        assert require_problem(readiness, "not-ready") == "the service is not ready: the warm-up of the device failed"
        assert service.get("/livez").status_code == 200
    assert str(error) in caplog.text


def _raiser(error: Exception) -> Callable[[PlanComputer], None]:
    def warm_up(_: PlanComputer) -> None:
        raise error

    return warm_up


def test_a_body_that_is_still_arriving_holds_a_place_until_it_is_late() -> None:
    arriving = threading.Event()

    async def stalls() -> AsyncIterator[bytes]:
        arriving.set()
        yield b"{"
        await asyncio.Event().wait()

    with in_process(host_app(max_queued_requests=1, body_timeout_seconds=1.0)) as service:
        stalled = service.start("POST", "/plan", content=stalls())
        assert arriving.wait(PATIENCE_SECONDS)
        while (turned_away := service.post("/plan", json=GOOD_REQUEST)).status_code == 200:
            assert not stalled.done(), "the stalled body held no place"
        if not stalled.done():
            require_problem(turned_away, "queue-full")
        late = stalled.result(PATIENCE_SECONDS)
        require_problem(late, "body-timeout")
        assert late.status_code == 408
        assert late.headers["connection"] == "close"
        require_good_plan(service)
