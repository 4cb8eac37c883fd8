"""Work without a body on the device thread: what becomes of it when it is given up or fails."""

import asyncio
import gc
import threading
import weakref
from contextlib import suppress

import pytest

from service.errors import Refusal
from service.runtime.engine import Engine, EngineOptions
from tests.running import PATIENCE_SECONDS


def _engine() -> Engine:
    options = EngineOptions(
        device="cpu",
        max_queued_requests=4,
        body_timeout_seconds=PATIENCE_SECONDS,
        deadline_seconds=PATIENCE_SECONDS,
        inline_body_bytes=1000,
        codec_threads=1,
    )
    return Engine(options, lambda: None)


def test_work_that_is_given_up_before_its_turn_is_forgotten_at_once() -> None:
    begun, let = threading.Event(), threading.Event()

    class Work:
        """Work that would hold a body."""

        def __call__(self) -> None:
            raise AssertionError("it was given up")

    def held() -> None:
        begun.set()
        assert let.wait(PATIENCE_SECONDS)

    async def ask(engine: Engine) -> None:
        holding = asyncio.create_task(engine.run(held, _nothing))
        while not begun.is_set():
            await asyncio.sleep(0)
        work = Work()
        kept = weakref.ref(work)
        waiting = asyncio.create_task(engine.run(work, _nothing))
        await asyncio.sleep(0)
        waiting.cancel()
        with suppress(asyncio.CancelledError):
            await waiting
        del work, waiting
        for _ in range(10):  # the loop tells the thread's future in its next rounds
            await asyncio.sleep(0)
        gc.collect()
        assert kept() is None
        let.set()
        await holding

    engine = _engine()
    engine.start()
    try:
        asyncio.run(ask(engine))
    finally:
        engine.close()


@pytest.mark.parametrize(("error", "raised"), [(MemoryError(), Refusal), (RuntimeError("no such slot"), RuntimeError)])
def test_work_that_fails_for_want_of_memory_is_refused(error: Exception, raised: type[Exception]) -> None:
    def fails() -> None:
        raise error

    engine = _engine()
    engine.start()
    try:
        with pytest.raises(raised) as caught:
            asyncio.run(engine.run(fails, _nothing))
    finally:
        engine.close()
    assert isinstance(caught.value, Refusal) == isinstance(error, MemoryError)


def test_work_begins_once_its_request_has_arrived_whole() -> None:
    done: list[str] = []

    async def broken() -> None:
        raise ConnectionError

    engine = _engine()
    engine.start()
    try:
        with pytest.raises(ConnectionError):
            asyncio.run(engine.run(lambda: done.append("too early"), broken))
        asyncio.run(engine.run(lambda: done.append("in time"), _nothing))
    finally:
        engine.close()
    assert done == ["in time"]


async def _nothing() -> None:
    """The body of a request that has none."""
