"""The memory that plans are computed in: what travels, how often, where it lies, and what is kept."""

import random
from itertools import pairwise

import numpy as np
import pytest
import torch

from service.kernels.backend import Target, backend_named
from service.plan import transfer
from service.plan.transfer import Workspace

NO_HEAD = np.empty(0, np.int64)
MIB = 2**20 // 8
"""Elements of the largest tensor that is staged."""


@pytest.fixture
def workspace(kernel_device: torch.device) -> Workspace:
    return Workspace(Target(kernel_device, backend_named("host")))


def draw(rng: random.Random) -> torch.Tensor:
    """A tensor of any dtype and rank that travels, and of any size, none at all among them."""
    shape = rng.choice([(rng.randint(0, 9),), (rng.randint(0, 5), rng.randint(0, 5)), (1, 1), (0,), (3, 0), (2047,)])
    dtype = rng.choice([torch.int32, torch.int64])
    return torch.randint(torch.iinfo(dtype).min, torch.iinfo(dtype).max, shape, dtype=dtype)


@pytest.mark.parametrize("seed", range(8))
def test_tensors_arrive_as_they_are_however_they_are_mixed(workspace: Workspace, seed: int) -> None:
    rng = random.Random(seed)  # noqa: S311
    torch.manual_seed(seed)
    for _ in range(6):
        tensors = [draw(rng) for _ in range(rng.randint(0, 7))]
        head = np.arange(rng.randint(0, 5)) - 3
        results = len(head) + rng.randint(0, 9)
        views, found = workspace.load(tensors, head, results)
        for view, tensor in zip(views, tensors, strict=True):
            assert (view.dtype, view.shape) == (tensor.dtype, tensor.shape)
            assert view.device == workspace.target.device
            assert torch.equal(view.cpu(), tensor)
        assert (found.dtype, found.shape) == (torch.int64, (results,))
        assert found[: len(head)].tolist() == head.tolist()


def test_everything_begins_aligned_and_nothing_overlaps(workspace: Workspace) -> None:
    tensors = [torch.zeros(n, dtype=dtype) for n in (1, 2, 3, 5, 0, 7) for dtype in (torch.int32, torch.int64)]
    views, results = workspace.load(tensors, np.zeros(1, np.int64), 3)
    taken = sorted((view.data_ptr(), view.nbytes) for view in [*views, results] if view.numel())
    assert all(start % 16 == taken[0][0] % 16 for start, _ in taken)
    assert all(start + size <= after for (start, size), (after, _) in pairwise(taken))


@pytest.mark.parametrize("elements", [MIB - 1, MIB, MIB + 1, 3 * MIB])
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_large_tensors_among_small_ones_arrive_too(workspace: Workspace, elements: int, dtype: torch.dtype) -> None:
    count = elements * (2 if dtype == torch.int32 else 1)
    large = torch.arange(count, dtype=dtype)
    small = torch.tensor([7, 8, 9], dtype=torch.int32)
    views, results = workspace.load([small, large, small + 1, large.reshape(1, -1)], np.array([5]), 2)
    assert [view.tolist() for view in (views[0], views[2])] == [[7, 8, 9], [8, 9, 10]]
    assert torch.equal(views[1].cpu(), large)
    assert torch.equal(views[3].cpu(), large.reshape(1, -1))
    assert results[:1].tolist() == [5]


def test_memory_is_kept_until_more_is_needed(workspace: Workspace) -> None:
    first, _ = workspace.load([torch.arange(1000)], NO_HEAD, 0)
    again, _ = workspace.load([torch.arange(900)], NO_HEAD, 100)
    assert first[0].data_ptr() == again[0].data_ptr()
    larger, _ = workspace.load([torch.arange(5000)], NO_HEAD, 0)
    assert torch.equal(larger[0].cpu(), torch.arange(5000))
    after, _ = workspace.load([torch.arange(5)], NO_HEAD, 0)
    assert after[0].data_ptr() == larger[0].data_ptr()


def test_memory_beyond_what_is_kept_is_used_once(monkeypatch: pytest.MonkeyPatch, workspace: Workspace) -> None:
    monkeypatch.setattr(transfer, "_KEPT_ELEMENTS", 100)
    kept, _ = workspace.load([torch.arange(90)], NO_HEAD, 0)
    beyond, results = workspace.load([torch.arange(101)], np.array([4, 5]), 50)
    assert torch.equal(beyond[0].cpu(), torch.arange(101))
    assert (results.shape, results[:2].tolist()) == ((50,), [4, 5])
    after, _ = workspace.load([torch.arange(100)], NO_HEAD, 0)
    assert after[0].data_ptr() == kept[0].data_ptr()
    assert workspace._memory.shape == (100,)


def test_what_is_read_is_a_copy(workspace: Workspace) -> None:
    _, results = workspace.load([], np.array([1, 2, 3]), 3)
    host = workspace.read(results)
    results.fill_(9)
    assert host.dtype == np.int64
    assert host.tolist() == [1, 2, 3]
    assert workspace.read(results[:0]).tolist() == []
