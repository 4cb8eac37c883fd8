"""Takes a body to an answer: decodes, hands it to the one thread that owns the device, encodes. Knows no HTTP."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

from service.errors import refusal
from service.plan.inputs import PlanInputs
from service.plan.planner import Plan
from service.runtime.device import refusing_out_of_memory
from service.runtime.plan_codec import decode_plain_plan_inputs, decode_plan_inputs, encode_plan

Compute = Callable[[PlanInputs, bool], Plan]
"""From inputs on the host, and whether entries are wanted, to a plan. Runs on the device thread."""

_LARGE_ANSWER_ELEMENTS = 16 * 1024
"""Answers with more elements are encoded in a codec thread."""
WARM_UP_FAILED = "the warm-up of the device failed"
_T = TypeVar("_T")
_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """How much the engine takes on, and the names that its answers carry."""

    device: str
    backend: str
    max_queued_requests: int
    body_timeout_seconds: float
    deadline_seconds: float
    inline_body_bytes: int
    codec_threads: int


@dataclass(slots=True)
class Answer:
    """An encoded plan, and how long each stage took in seconds, in the order of the stages."""

    content: bytes = b""
    stage_seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Time the body of the ``with`` as one stage."""
        began = time.perf_counter()
        yield
        self.stage_seconds[name] = time.perf_counter() - began


class PlanEngine:
    """Owns the device thread and the codec threads of one process.

    ``compute`` is called on the device thread only; ``warm_up`` is the first thing that runs there.
    """

    def __init__(self, options: EngineOptions, compute: Compute, warm_up: Callable[[], None]) -> None:
        self._options = options
        self._compute = compute
        self._warm_up = warm_up
        self._device_thread = ThreadPoolExecutor(1, thread_name_prefix="kv-plan-device")
        self._codec_threads = ThreadPoolExecutor(options.codec_threads, thread_name_prefix="kv-plan-codec")
        self._admitted = 0
        self.not_ready_reason: str | None = "the kernels are being warmed up"

    def start(self) -> None:
        """Begin the warm-up; plans that arrive meanwhile wait behind it."""
        self._device_thread.submit(self._run_warm_up)

    def close(self) -> None:
        """Wait for running work and end the threads."""
        self._device_thread.shutdown(cancel_futures=True)
        self._codec_threads.shutdown(cancel_futures=True)

    async def answer(self, read_body: Callable[[], Awaitable[bytes]], *, with_entries: bool) -> Answer:
        """The encoded plan of a JSON body, without its entries unless ``with_entries``.

        The body is read only once the plan is admitted. Raises ``InvalidInput`` for a body that breaks a rule of the
        plan, and ``ServingRefusal`` for one that is malformed, late, over a limit, over the queue or over the deadline,
        or finds no memory.
        """
        limit = self._options.max_queued_requests
        if self._admitted >= limit:
            raise refusal("queue-full", limit=limit)
        self._admitted += 1
        try:
            with refusing_out_of_memory(self._options.device):
                body = await _within(self._options.body_timeout_seconds, "body-timeout", read_body)
                return await _within(
                    self._options.deadline_seconds, "deadline-exceeded", lambda: self._answer(body, with_entries)
                )
        finally:
            self._admitted -= 1

    async def _answer(self, body: bytes, with_entries: bool) -> Answer:
        answer = Answer()
        with answer.stage("decode"):
            inputs = await self._decode(body)
        submitted = time.perf_counter()
        began, plan, ended = await _in(self._device_thread, lambda: self._timed_plan(inputs, with_entries))
        answer.stage_seconds |= {"queue": began - submitted, "compute": ended - began}
        with answer.stage("encode"):
            answer.content = await self._encode(plan)
        return answer

    def _timed_plan(self, inputs: PlanInputs, with_entries: bool) -> tuple[float, Plan, float]:
        began = time.perf_counter()
        plan = self._compute(inputs, with_entries)
        return began, plan, time.perf_counter()

    async def _decode(self, body: bytes) -> PlanInputs:
        inputs = decode_plain_plan_inputs(body) if len(body) <= self._options.inline_body_bytes else None
        if inputs is not None:
            return inputs
        return await _in(self._codec_threads, lambda: decode_plan_inputs(body))

    async def _encode(self, plan: Plan) -> bytes:
        def encode() -> bytes:
            return encode_plan(plan, self._options.device, self._options.backend)

        return await _in(self._codec_threads, encode) if _elements(plan) > _LARGE_ANSWER_ELEMENTS else encode()

    def _run_warm_up(self) -> None:
        try:
            self._warm_up()
        except Exception:
            _logger.exception("the warm-up failed")
            self.not_ready_reason = WARM_UP_FAILED
        else:
            self.not_ready_reason = None


def _elements(plan: Plan) -> int:
    entries = 0 if plan.entries is None else 4 * plan.entries.verify_slot_indices.shape[0]
    return entries + 2 * plan.sizes.bs + plan.sizes.write_req_capacity


async def _in(executor: Executor, work: Callable[[], _T]) -> _T:
    return await asyncio.get_running_loop().run_in_executor(executor, work)


async def _within(seconds: float, code: str, work: Callable[[], Awaitable[_T]]) -> _T:
    """What ``work`` returns; the refusal ``code`` if it takes longer than ``seconds``."""
    try:
        async with asyncio.timeout(seconds) as limit:
            return await work()
    except TimeoutError:
        if not limit.expired():
            raise
        raise refusal(code, limit=seconds) from None
