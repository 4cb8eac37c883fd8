"""Takes a body to an answer: decodes, hands it to the one thread that owns the device, encodes. Knows no HTTP.

What is decoded, done and encoded is an ``Operation``; the engine knows only where and when.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from service.errors import refusal
from service.runtime.device import refuse_out_of_memory
from service.spec import FieldSpec
from service.wire.json_body import STRICT, BodyReader, decode_json_body
from service.wire.small_body import decode_small_body

Q = TypeVar("Q")
R = TypeVar("R")
_T = TypeVar("_T")

Reading = Callable[[bytes], AbstractContextManager[BodyReader]]
"""Reads one body: what it gives while it is entered reads the parts of that body."""

_LARGE_ANSWER_ELEMENTS = 16 * 1024
"""Answers with more elements are encoded in an encoder thread."""
WARM_UP_FAILED = "the warm-up of the device failed"
_logger = logging.getLogger(__name__)


def reading_strictly(_body: bytes) -> AbstractContextManager[BodyReader]:
    """Reads a body by what defines how any is read."""
    return nullcontext(STRICT)


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """How much the engine takes on, and the device that its answers carry."""

    device: str
    max_queued_requests: int
    body_timeout_seconds: float
    deadline_seconds: float
    inline_body_bytes: int
    codec_threads: int


@dataclass(frozen=True, slots=True)
class Operation(Generic[Q, R]):
    """One kind of request: from the fields of its body to a query, to a result on the device, to an answer."""

    fields: Sequence[FieldSpec]
    query: Callable[[dict[str, Any]], Q]
    run: Callable[[Q], R]
    """Called on the device thread, or where it cannot collide with it."""
    encode: Callable[[R], bytes | memoryview]
    elements: Callable[[R], int]
    """About how many numbers the answer has."""
    is_quick: Callable[[Q], bool]
    """Whether ``run`` needs no device and takes less time than a change of threads is worth."""


@dataclass(slots=True)
class Answer(Generic[R]):
    """An encoded result, and how long each stage took."""

    result: R
    content: bytes | memoryview = b""
    stage_seconds: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)
    """To decode, to wait for the device, to compute, to encode."""


class Engine:
    """Owns the device thread and the codec threads of one process.

    ``warm_up`` is the first thing that runs on the device thread. Bodies are decoded in threads of their own, so that
    a finished plan is encoded, and its memory given back, before more bodies are taken on; while it decodes one,
    a thread is ``reading`` it.
    """

    def __init__(
        self, options: EngineOptions, warm_up: Callable[[], None], reading: Reading = reading_strictly
    ) -> None:
        self._options = options
        self._warm_up = warm_up
        self._reading = reading
        self._device_thread = ThreadPoolExecutor(1, thread_name_prefix="kv-plan-device")
        self._decoders = ThreadPoolExecutor(options.codec_threads, thread_name_prefix="kv-plan-decoder")
        self._encoders = ThreadPoolExecutor(options.codec_threads, thread_name_prefix="kv-plan-encoder")
        self._on_device: set[Future[Any]] = set()
        self._admitted = 0
        self.not_ready_reason: str | None = "the kernels are being warmed up"

    def start(self) -> None:
        """Begin the warm-up; work that arrives meanwhile waits behind it."""
        self._submit(self._run_warm_up)

    def close(self) -> None:
        """Wait for running work and end the threads."""
        self._device_thread.shutdown(cancel_futures=True)
        self._decoders.shutdown(cancel_futures=True)
        self._encoders.shutdown(cancel_futures=True)

    async def perform(
        self, operation: Operation[Q, R], read_body: Callable[[], Awaitable[bytes]], *, at_hand: bool = False
    ) -> Answer[R]:
        """The answer of an operation to a JSON body, which has arrived if it is ``at_hand``.

        The body is read only once the request is admitted. Raises ``InvalidInput`` for a body that breaks a rule of the
        plan, and ``ServingRefusal`` for one that is malformed, late, over a limit, over the queue or over the deadline,
        or finds no memory.
        """
        self._admit()
        try:
            if at_hand:
                body = await read_body()
            else:
                body = await _within(self._options.body_timeout_seconds, "body-timeout", read_body)
            began = time.perf_counter()
            query = self._plain_query(operation, body)
            if query is not None and self._needs_no_thread(operation, query):
                decoded = time.perf_counter()
                result = operation.run(query)
                computed = time.perf_counter()
                return _answer(operation, result, (began, decoded, decoded, computed, computed))
            return await _within(
                self._options.deadline_seconds,
                "deadline-exceeded",
                lambda: self._answer_over_threads(operation, body, query, began),
            )
        except (MemoryError, RuntimeError) as error:
            refuse_out_of_memory(error, self._options.device)
            raise
        finally:
            self._admitted -= 1

    async def run(self, work: Callable[[], _T], read_body: Callable[[], Awaitable[object]]) -> _T:
        """What ``work`` returns on the device thread once the request has arrived whole, whose body says nothing.

        Refused as ``perform`` is.
        """
        self._admit()
        try:
            await _within(self._options.body_timeout_seconds, "body-timeout", read_body)
            return await _within(
                self._options.deadline_seconds,
                "deadline-exceeded",
                lambda: asyncio.wrap_future(self._submit(work)),
            )
        except (MemoryError, RuntimeError) as error:
            refuse_out_of_memory(error, self._options.device)
            raise
        finally:
            self._admitted -= 1

    def _admit(self) -> None:
        limit = self._options.max_queued_requests
        if self._admitted >= limit:
            raise refusal("queue-full", limit=limit)
        self._admitted += 1

    def _plain_query(self, operation: Operation[Q, R], body: bytes) -> Q | None:
        """What a small body asks if that is plain to see."""
        if len(body) > self._options.inline_body_bytes:
            return None
        fields = decode_small_body(body, operation.fields)
        return None if fields is None else operation.query(fields)

    def _needs_no_thread(self, operation: Operation[Q, R], query: Q) -> bool:
        # Work reaches the device thread from this thread only: while it has none, nothing can run beside this.
        return not self._on_device and operation.is_quick(query)

    async def _answer_over_threads(
        self, operation: Operation[Q, R], body: bytes, plain: Q | None, began: float
    ) -> Answer[R]:
        query = plain
        if query is None:
            query = await _in(self._decoders, lambda: self._decoded_query(operation, body))
        decoded = time.perf_counter()

        def timed() -> tuple[float, R, float]:
            started = time.perf_counter()
            return started, operation.run(query), time.perf_counter()

        if self._needs_no_thread(operation, query):
            started, result, ended = timed()
        else:
            started, result, ended = await asyncio.wrap_future(self._submit(timed))
        times = (began, decoded, started, ended, time.perf_counter())
        if operation.elements(result) > _LARGE_ANSWER_ELEMENTS:
            return await _in(self._encoders, lambda: _answer(operation, result, times))
        return _answer(operation, result, times)

    def _decoded_query(self, operation: Operation[Q, R], body: bytes) -> Q:
        with self._reading(body) as reader:
            return operation.query(decode_json_body(body, operation.fields, reader))

    def _submit(self, work: Callable[[], _T]) -> Future[_T]:
        future = _submitted(self._device_thread, work)
        self._on_device.add(future)
        future.add_done_callback(self._on_device.discard)
        return future

    def _run_warm_up(self) -> None:
        try:
            self._warm_up()
        except Exception:
            _logger.exception("the warm-up failed")
            self.not_ready_reason = WARM_UP_FAILED
        else:
            self.not_ready_reason = None


def _answer(operation: Operation[Q, R], result: R, times: tuple[float, float, float, float, float]) -> Answer[R]:
    """The encoded result; ``times`` are when decoding began and ended, computing began and ended, encoding began."""
    content = operation.encode(result)
    began, decoded, started, ended, returned = times
    stages = (decoded - began, started - decoded, ended - started, time.perf_counter() - returned)
    return Answer(result, content, stages)


async def _in(executor: Executor, work: Callable[[], _T]) -> _T:
    return await asyncio.wrap_future(_submitted(executor, work))


def _submitted(executor: Executor, work: Callable[[], _T]) -> Future[_T]:
    """The future of ``work``, which is forgotten at once, and its body with it, if it is given up before its turn."""
    held = [work]
    future = executor.submit(lambda: held[0]())
    future.add_done_callback(lambda _: held.clear())
    return future


async def _within(seconds: float, code: str, work: Callable[[], Awaitable[_T]]) -> _T:
    """What ``work`` returns; the refusal ``code`` if it takes longer than ``seconds``."""
    try:
        async with asyncio.timeout(seconds) as limit:
            return await work()
    except TimeoutError:
        if not limit.expired():
            raise
        raise refusal(code, limit=seconds) from None
