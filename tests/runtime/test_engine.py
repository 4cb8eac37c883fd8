"""Where work is done: small bodies on the event loop, large ones in threads, plans in one thread."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import orjson
import pytest
import torch

from service.errors import InvalidInput
from service.kernels.backend import Target, backend_named
from service.plan.inputs import PlanInputs
from service.plan.planner import Plan
from service.plan.transfer import Workspace
from service.runtime import engine as engine_module
from service.runtime.computer import PlanComputer, PlanLimits
from service.runtime.engine import Answer, Engine, EngineOptions, Operation
from service.runtime.operations import Operations, Planned
from service.runtime.pools import PoolStore
from service.runtime.queries import PlanQuery
from service.wire.json_body import decode_json_body
from service.wire.small_body import decode_small_body
from tests.running import GOOD_REQUEST, PATIENCE_SECONDS

BODY = orjson.dumps(GOOD_REQUEST)
LIMITS = PlanLimits(max_requests=10**6, max_table_cells=10**6, max_verify_entries=10**6)
WORKSPACE = Workspace(Target(torch.device("cpu"), backend_named("host")))
compute_right = PlanComputer(WORKSPACE, LIMITS)
Plans = Operation[PlanQuery, Planned]


def _engine(warm_up: Callable[[], None] = lambda: None, **changes: Any) -> Engine:
    options: dict[str, Any] = {
        "device": "cpu",
        "max_queued_requests": 4,
        "body_timeout_seconds": PATIENCE_SECONDS,
        "deadline_seconds": PATIENCE_SECONDS,
        "inline_body_bytes": 1000,
        "codec_threads": 2,
    }
    return Engine(EngineOptions(**options | changes), warm_up)


def _plans(compute: Any = compute_right, *, quick: bool = False, with_entries: bool = True) -> Plans:
    pools = PoolStore(WORKSPACE, max_resident_bytes=0)
    signature = {"device": "cpu", "backend": "host"}
    operations = Operations(compute, pools, LIMITS, signature, quick=quick, workers=1)
    return operations.plan(with_entries=with_entries)


def _arrived(body: bytes) -> Callable[[], Awaitable[bytes]]:
    """A body that is there at once."""

    async def read() -> bytes:
        return body

    return read


def _answers(engine: Engine, operation: Plans, *bodies: bytes) -> list[Answer[Planned]]:
    """The answers of an engine that has warmed up."""

    async def ask() -> list[Answer[Planned]]:
        while engine.not_ready_reason is not None or engine._on_device:
            await asyncio.sleep(0)
        return await asyncio.gather(*(engine.perform(operation, _arrived(body)) for body in bodies))

    engine.start()
    try:
        return asyncio.run(ask())
    finally:
        engine.close()


def _thread() -> str:
    return threading.current_thread().name.rstrip("_0123456789")


def _noting(monkeypatch: pytest.MonkeyPatch, operation: Plans) -> tuple[dict[str, str], Plans]:
    """The thread in which each stage was last done, and the operation that notes it."""
    threads: dict[str, str] = {}

    def note(name: str, work: Callable[..., Any]) -> Callable[..., Any]:
        def noted(*args: Any) -> Any:
            threads[name] = _thread()
            return work(*args)

        return noted

    monkeypatch.setattr(engine_module, "decode_json_body", note("decode", decode_json_body))
    monkeypatch.setattr(engine_module, "decode_small_body", note("decode", decode_small_body))
    noted = replace(operation, run=note("run", operation.run), encode=note("encode", operation.encode))
    return threads, noted


@pytest.mark.parametrize(
    ("inline_body_bytes", "thread"),
    [(len(BODY), "MainThread"), (len(BODY) - 1, "kv-plan-decoder"), (0, "kv-plan-decoder")],
)
def test_bodies_over_the_inline_limit_are_decoded_in_a_decoder_thread(
    monkeypatch: pytest.MonkeyPatch, inline_body_bytes: int, thread: str
) -> None:
    threads, plans = _noting(monkeypatch, _plans())
    _answers(_engine(inline_body_bytes=inline_body_bytes), plans, BODY)
    assert threads == {"decode": thread, "run": "kv-plan-device", "encode": "MainThread"}


def test_a_small_body_that_is_odd_is_decoded_in_a_decoder_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    threads, plans = _noting(monkeypatch, _plans())
    odd = BODY.replace(b"{", b'{"verify_\\u0063apacity": 7, ', 1)
    answers = _answers(_engine(), plans, odd)
    assert orjson.loads(answers[0].content)["verify_enable"] is True
    assert threads["decode"] == "kv-plan-decoder"


@pytest.mark.parametrize(
    ("columns", "with_entries", "thread"),
    [(4000, True, "MainThread"), (5000, True, "kv-plan-encoder"), (5000, False, "MainThread")],
)
def test_large_answers_are_encoded_in_an_encoder_thread(
    monkeypatch: pytest.MonkeyPatch, columns: int, with_entries: bool, thread: str
) -> None:
    threads, plans = _noting(monkeypatch, _plans(with_entries=with_entries))
    request = GOOD_REQUEST | {"prefix_lens": [columns], "req_to_token": [[0] * columns] * 2}
    _answers(_engine(), plans, orjson.dumps(request))
    assert threads["encode"] == thread


@pytest.mark.parametrize("codec_threads", [1, 3])
def test_as_many_bodies_are_decoded_at_once_as_there_are_codec_threads(
    monkeypatch: pytest.MonkeyPatch, codec_threads: int
) -> None:
    together = threading.Barrier(codec_threads)

    def decode_together(*arguments: Any) -> Any:
        together.wait(PATIENCE_SECONDS)
        return decode_json_body(*arguments)

    monkeypatch.setattr(engine_module, "decode_json_body", decode_together)
    engine = _engine(inline_body_bytes=0, codec_threads=codec_threads)
    assert len(_answers(engine, _plans(), *[BODY] * codec_threads)) == codec_threads
    assert len(engine._decoders._threads) == codec_threads


def test_the_warm_up_and_every_plan_that_needs_a_device_run_in_one_thread() -> None:
    threads: list[str] = []

    def compute(inputs: Sequence[PlanInputs], with_entries: bool) -> list[Plan[Any]]:
        threads.append(threading.current_thread().name)
        return compute_right(inputs, with_entries)

    engine = _engine(lambda: threads.append(threading.current_thread().name))
    assert engine.not_ready_reason == "the kernels are being warmed up"
    _answers(engine, _plans(compute), BODY, BODY, BODY)
    assert threads == ["kv-plan-device_0"] * 4
    assert engine.not_ready_reason is None


@pytest.mark.parametrize(
    ("changes", "thread"),
    [
        ({}, "MainThread"),
        ({"req_to_token": [[0] * 8192] * 2, "prefix_lens": [8192]}, "MainThread"),
        ({"req_to_token": [[0] * 8193] * 2, "prefix_lens": [8193]}, "kv-plan-device"),
        ({"req_to_token": [[0] * 9000] * 2, "prefix_lens": [9000], "swa_window_size": 2}, "MainThread"),
        ({"prefix_lens": [2**62]}, "kv-plan-device"),
        ({name: [0] * 8193 for name in ("req_pool_indices", "prefix_lens", "extend_seq_lens")}, "kv-plan-device"),
        ({"req_pool_indices": [], "prefix_lens": [], "extend_seq_lens": []}, "MainThread"),
    ],
)
def test_a_small_plan_that_needs_no_device_is_computed_where_it_is(
    monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], thread: str
) -> None:
    lut = {"full_to_swa_index_mapping": [0, 1, 2, 3, 4, 5, 6, 7, 8]}
    threads, plans = _noting(monkeypatch, _plans(quick=True))
    body = orjson.dumps(GOOD_REQUEST | lut | changes)
    with suppress(InvalidInput):
        _answers(_engine(inline_body_bytes=10**6), plans, body)
    assert threads["run"] == thread


def test_nothing_is_computed_beside_work_that_the_device_thread_has() -> None:
    """A change of a pool that runs there must not be seen half done."""
    begun, let = threading.Event(), threading.Event()
    threads: list[str] = []

    def held() -> None:
        begun.set()
        assert let.wait(PATIENCE_SECONDS)

    quick = _plans(quick=True)

    def run(query: PlanQuery) -> Planned:
        threads.append(_thread())
        return quick.run(query)

    async def ask(engine: Engine, plans: Plans) -> None:
        holding = asyncio.create_task(engine.run(held, _arrived(b"")))
        while not begun.is_set():
            await asyncio.sleep(0)
        behind = asyncio.create_task(engine.perform(plans, _arrived(BODY)))
        await asyncio.sleep(0)
        let.set()
        await asyncio.gather(holding, behind)
        while engine._on_device:
            await asyncio.sleep(0)
        await engine.perform(plans, _arrived(BODY))

    engine = _engine()
    engine.start()
    try:
        asyncio.run(ask(engine, replace(quick, run=run)))
    finally:
        engine.close()
    assert threads == ["kv-plan-device", "MainThread"]


def test_an_answer_has_the_time_of_every_stage() -> None:
    (answer,) = _answers(_engine(), _plans(), BODY)
    assert len(answer.stage_seconds) == 4
    assert all(seconds >= 0 for seconds in answer.stage_seconds)
    assert orjson.loads(answer.content)["verify_slot_indices"] == [5, 6]


def test_closing_waits_for_work_that_runs_and_drops_work_that_waits() -> None:
    begun, let = threading.Event(), threading.Event()
    finished: list[int] = []

    def compute(inputs: Sequence[PlanInputs], with_entries: bool) -> list[Plan[Any]]:
        begun.set()
        assert let.wait(PATIENCE_SECONDS)
        finished.append(inputs[0].bs)
        return compute_right(inputs, with_entries)

    async def ask(engine: Engine, plans: Plans) -> list[Answer[Planned] | BaseException]:
        asked = asyncio.gather(*(engine.perform(plans, _arrived(BODY)) for _ in range(2)), return_exceptions=True)
        while not begun.is_set():
            await asyncio.sleep(0)
        closing = asyncio.get_running_loop().run_in_executor(None, engine.close)
        while not engine._device_thread._shutdown:
            await asyncio.sleep(0)
        let.set()
        await closing
        return await asked

    engine = _engine()
    engine.start()
    first, second = asyncio.run(ask(engine, _plans(compute)))
    assert isinstance(first, Answer)
    assert isinstance(second, asyncio.CancelledError)
    assert finished == [1]


@pytest.mark.parametrize("capacity", [1024, 1025, 10**6])
def test_a_plan_with_many_write_rows_is_not_made_where_it_is(monkeypatch: pytest.MonkeyPatch, capacity: int) -> None:
    threads, plans = _noting(monkeypatch, _plans(quick=True))
    _answers(_engine(), plans, orjson.dumps(GOOD_REQUEST | {"write_req_capacity": capacity}))
    large = capacity > 8192
    assert (threads["run"], threads["encode"]) == (
        ("kv-plan-device", "kv-plan-encoder") if large else ("MainThread", "MainThread")
    )
