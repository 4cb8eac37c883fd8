"""Where work is done: small bodies on the event loop, large ones in codec threads, plans in one thread."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import orjson
import pytest
import torch

from service.kernels.backend import Target, backend_named
from service.plan.inputs import PlanInputs
from service.plan.planner import Plan
from service.runtime import engine as engine_module
from service.runtime.computer import PlanComputer, PlanLimits
from service.runtime.engine import Answer, EngineOptions, PlanEngine
from service.runtime.plan_codec import decode_plain_plan_inputs, decode_plan_inputs, encode_plan
from tests.running import GOOD_REQUEST, PATIENCE_SECONDS

BODY = orjson.dumps(GOOD_REQUEST)
LIMITS = PlanLimits(max_requests=10**6, max_table_cells=10**6, max_verify_entries=10**6)
compute_right = PlanComputer(Target(torch.device("cpu"), backend_named("host")), LIMITS)


def _options(**changes: Any) -> EngineOptions:
    options: dict[str, Any] = {
        "device": "cpu",
        "backend": "host",
        "max_queued_requests": 4,
        "body_timeout_seconds": PATIENCE_SECONDS,
        "deadline_seconds": PATIENCE_SECONDS,
        "inline_body_bytes": 1000,
        "codec_threads": 2,
    }
    return EngineOptions(**options | changes)


def _nothing() -> None:
    """A warm-up of nothing."""


def _arrived(body: bytes) -> Callable[[], Awaitable[bytes]]:
    """A body that is there at once."""

    async def read() -> bytes:
        return body

    return read


def _answers(engine: PlanEngine, *bodies: bytes, with_entries: bool = True) -> list[Answer]:
    async def ask() -> list[Answer]:
        return await asyncio.gather(*(engine.answer(_arrived(body), with_entries=with_entries) for body in bodies))

    engine.start()
    try:
        return asyncio.run(ask())
    finally:
        engine.close()


def _noting_threads(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The thread in which each stage was last done."""
    threads: dict[str, str] = {}

    def note(name: str, work: Callable[..., Any]) -> Callable[..., Any]:
        def noted(*args: Any) -> Any:
            threads[name] = threading.current_thread().name.rstrip("_0123456789")
            return work(*args)

        return noted

    monkeypatch.setattr(engine_module, "decode_plan_inputs", note("decode", decode_plan_inputs))
    monkeypatch.setattr(engine_module, "decode_plain_plan_inputs", note("decode", decode_plain_plan_inputs))
    monkeypatch.setattr(engine_module, "encode_plan", note("encode", encode_plan))
    return threads


@pytest.mark.parametrize(
    ("inline_body_bytes", "thread"), [(len(BODY), "MainThread"), (len(BODY) - 1, "kv-plan-codec"), (0, "kv-plan-codec")]
)
def test_bodies_over_the_inline_limit_are_decoded_in_a_codec_thread(
    monkeypatch: pytest.MonkeyPatch, inline_body_bytes: int, thread: str
) -> None:
    threads = _noting_threads(monkeypatch)
    _answers(PlanEngine(_options(inline_body_bytes=inline_body_bytes), compute_right, _nothing), BODY)
    assert threads == {"decode": thread, "encode": "MainThread"}


def test_a_small_body_that_is_odd_is_decoded_in_a_codec_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    threads = _noting_threads(monkeypatch)
    odd = BODY.replace(b"{", b'{"verify_\\u0063apacity": 7, ', 1)
    answers = _answers(PlanEngine(_options(), compute_right, _nothing), odd)
    assert orjson.loads(answers[0].content)["verify_enable"] is True
    assert threads == {"decode": "kv-plan-codec", "encode": "MainThread"}


@pytest.mark.parametrize(
    ("columns", "with_entries", "thread"),
    [(4000, True, "MainThread"), (5000, True, "kv-plan-codec"), (5000, False, "MainThread")],
)
def test_large_answers_are_encoded_in_a_codec_thread(
    monkeypatch: pytest.MonkeyPatch, columns: int, with_entries: bool, thread: str
) -> None:
    threads = _noting_threads(monkeypatch)
    request = GOOD_REQUEST | {"prefix_lens": [columns], "req_to_token": [[0] * columns] * 2}
    engine = PlanEngine(_options(), compute_right, _nothing)
    _answers(engine, orjson.dumps(request), with_entries=with_entries)
    assert threads["encode"] == thread


@pytest.mark.parametrize("codec_threads", [1, 3])
def test_as_many_bodies_are_decoded_at_once_as_there_are_codec_threads(
    monkeypatch: pytest.MonkeyPatch, codec_threads: int
) -> None:
    together = threading.Barrier(codec_threads)

    def decode_together(body: bytes) -> PlanInputs:
        together.wait(PATIENCE_SECONDS)
        return decode_plan_inputs(body)

    monkeypatch.setattr(engine_module, "decode_plan_inputs", decode_together)
    engine = PlanEngine(_options(inline_body_bytes=0, codec_threads=codec_threads), compute_right, _nothing)
    assert len(_answers(engine, *[BODY] * codec_threads)) == codec_threads
    assert len(engine._codec_threads._threads) == codec_threads


def test_the_warm_up_and_every_plan_run_in_one_thread() -> None:
    threads: list[str] = []

    def compute(inputs: PlanInputs, with_entries: bool) -> Plan:
        threads.append(threading.current_thread().name)
        return compute_right(inputs, with_entries)

    engine = PlanEngine(_options(), compute, lambda: threads.append(threading.current_thread().name))
    assert engine.not_ready_reason == "the kernels are being warmed up"
    _answers(engine, BODY, BODY, BODY)
    assert threads == ["kv-plan-device_0"] * 4
    assert engine.not_ready_reason is None


def test_an_answer_has_the_time_of_every_stage_in_order() -> None:
    (answer,) = _answers(PlanEngine(_options(), compute_right, _nothing), BODY)
    assert list(answer.stage_seconds) == ["decode", "queue", "compute", "encode"]
    assert all(seconds >= 0 for seconds in answer.stage_seconds.values())
    assert orjson.loads(answer.content)["verify_slot_indices"] == [5, 6]


def test_closing_waits_for_work_that_runs_and_drops_work_that_waits() -> None:
    begun, let = threading.Event(), threading.Event()
    finished: list[int] = []

    def compute(inputs: PlanInputs, with_entries: bool) -> Plan:
        begun.set()
        assert let.wait(PATIENCE_SECONDS)
        finished.append(inputs.bs)
        return compute_right(inputs, with_entries)

    async def ask(engine: PlanEngine) -> list[Answer | BaseException]:
        asked = asyncio.gather(
            *(engine.answer(_arrived(BODY), with_entries=True) for _ in range(2)), return_exceptions=True
        )
        while not begun.is_set():
            await asyncio.sleep(0)
        closing = asyncio.get_running_loop().run_in_executor(None, engine.close)
        while not engine._device_thread._shutdown:
            await asyncio.sleep(0)
        let.set()
        await closing
        return await asked

    engine = PlanEngine(_options(), compute, _nothing)
    engine.start()
    first, second = asyncio.run(ask(engine))
    assert isinstance(first, Answer)
    assert isinstance(second, asyncio.CancelledError)
    assert finished == [1]
