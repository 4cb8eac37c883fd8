"""Compilations are counted, and once the first plan has been launched there are none."""

from typing import Any

import pytest
import torch

from service.kernels import compile_events
from service.kernels.backend import backend_named
from service.kernels.operands import PlanOperands
from tests.batches import Shape, draw_batch
from tests.kernels.harness import operands_on, run_operands

pytestmark = pytest.mark.triton


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Triton's knobs as before anybody watched."""
    from triton import knobs

    monkeypatch.setattr(compile_events, "_counter", compile_events._Counter())
    monkeypatch.setattr(knobs.runtime, "jit_post_compile_hook", None)
    return knobs.runtime


def test_every_compilation_counts_once_however_often_the_watch_begins(runtime: Any) -> None:
    assert compile_events.compiled_kernels() == 0
    compile_events.watch()
    compile_events.watch()
    assert compile_events.compiled_kernels() == 0
    runtime.jit_post_compile_hook(key="a", fn=None)
    runtime.jit_post_compile_hook(key="b", fn=None)
    assert compile_events.compiled_kernels() == 2


def test_a_hook_that_was_there_before_still_hears_of_compilations(runtime: Any) -> None:
    heard: list[str] = []
    runtime.jit_post_compile_hook = lambda *, key: heard.append(key)
    compile_events.watch()
    runtime.jit_post_compile_hook(key="a")
    assert heard == ["a"]
    assert compile_events.compiled_kernels() == 1


def moved_by_one(tensor: torch.Tensor) -> torch.Tensor:
    """The same values at an address that no more than one element divides."""
    flat = torch.empty(tensor.numel() + 1, dtype=tensor.dtype, device=tensor.device)[1:]
    return flat.copy_(tensor.flatten()).view(tensor.shape)


@pytest.mark.gpu
def test_after_the_first_plan_no_size_window_or_alignment_compiles_anything(kernel_device: torch.device) -> None:
    backend_named("triton")
    first = draw_batch(Shape(bs=1, cols=4, lut=True, window=2, tokens=True), seed=1)
    run_operands("triton", operands_on(first, kernel_device), 8, 1)
    before = compile_events.compiled_kernels()
    for bs in (0, 1, 16, 31, 32, 33, 256, 257, 1024, 1025, 4096, 70_000):
        for window, cols in ((0, 5), (1, 16), (2**40, 33)):
            shape = Shape(bs=bs, cols=cols, lut=True, window=window, tokens=True, token_offset=bs % 3)
            batch: PlanOperands = operands_on(draw_batch(shape, seed=bs), kernel_device)
            room = bs * cols + 1
            run_operands("triton", batch._replace(verify_capacity=room), room, bs + 1)
            moved = batch._replace(
                req_pool_indices=moved_by_one(batch.req_pool_indices),
                prefix_lens=moved_by_one(batch.prefix_lens),
                req_to_token=moved_by_one(batch.req_to_token),
            )
            run_operands("triton", moved, room, bs + 3)
    assert compile_events.compiled_kernels() == before
