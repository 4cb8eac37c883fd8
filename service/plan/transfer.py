"""Owns the memory that plans are computed in, and how operands travel to it and results back."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import accumulate
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from service.kernels.backend import Target
from service.kernels.host_batch import Ints

_ALIGNED_ELEMENTS = 2
"""Tensors begin at multiples of 16 bytes, as allocations of their own would, so no kernel is compiled anew."""
_STAGED_BYTES = 2**20
"""Larger tensors are copied from where they are: another copy on the host would cost more than it saves."""
_KEPT_ELEMENTS = 2**25
"""Memory beyond this (256 MiB) is given back after the plan that needed it."""


class Workspace:
    """Memory of one device that plans are computed in, used by one thread and kept from one plan to the next.

    Once it has grown to what plans need, a plan allocates nothing on the device. Small tensors travel there in one
    copy from pinned memory, and all results come back in one.
    """

    def __init__(self, target: Target) -> None:
        self.target = target
        self._on_cuda = target.device.type == "cuda"
        self._memory = self._allocated(0)
        self._staging = torch.empty(0, dtype=torch.int64)
        self._sent: Any = torch.cuda.Event() if self._on_cuda else None  # type: ignore[no-untyped-call]
        self._arrived: Any = torch.cuda.Event() if self._on_cuda else None  # type: ignore[no-untyped-call]

    def load(self, tensors: Sequence[torch.Tensor], head: Ints, spare: int) -> tuple[list[torch.Tensor], torch.Tensor]:
        """The CPU ``tensors`` on the device, and a vector there that begins with ``head`` and has ``spare`` more.

        ``tensors`` are contiguous, int32 or int64. What ``spare`` holds is undefined. All of it is overwritten by the
        next call.
        """
        with self._device():
            return self._loaded(tensors, head, spare)

    def _loaded(
        self, tensors: Sequence[torch.Tensor], head: Ints, spare: int
    ) -> tuple[list[torch.Tensor], torch.Tensor]:
        sizes = [aligned(-(-tensor.nbytes // 8)) for tensor in tensors]
        staged = [size * 8 <= _STAGED_BYTES for size in sizes]
        sent = sum(size for size, small in zip(sizes, staged, strict=True) if small) + aligned(len(head))
        direct = sum(sizes) + aligned(len(head)) - sent
        memory = self._reserved(sum(sizes) + aligned(len(head)) + spare)
        if self._sent is not None:
            self._sent.synchronize()  # the last call's copy still reads the pinned memory
        staging = self._staged(sent)
        views, at_direct, at_staged = [], 0, 0
        for tensor, size, small in zip(tensors, sizes, staged, strict=True):
            start = direct + at_staged if small else at_direct
            view = _as(memory[start : start + size], tensor)
            if small:
                _as_array(staging[at_staged : at_staged + size], tensor)[:] = tensor.numpy().reshape(-1)
                at_staged += size
            else:
                view.copy_(tensor)
                at_direct += size
            views.append(view)
        staging[at_staged : at_staged + len(head)] = head
        memory[direct : direct + sent].copy_(self._staging[:sent], non_blocking=True)
        if self._sent is not None:
            self._sent.record()
        return views, memory[direct + at_staged :]

    def read(self, results: torch.Tensor) -> Ints:
        """A copy on the host of a vector on the device, once everything launched so far is done."""
        with self._device():
            host = torch.empty(results.shape, dtype=torch.int64, pin_memory=self._on_cuda)
            host.copy_(results, non_blocking=True)
            if self._arrived is not None:
                self._arrived.record()
                self._arrived.synchronize()
        return host.numpy()

    def _device(self) -> AbstractContextManager[object]:
        """Events and pinned memory belong to the device that is current, which need not be this one."""
        return torch.cuda.device(self.target.device) if self._on_cuda else nullcontext()

    def _reserved(self, elements: int) -> torch.Tensor:
        if elements > _KEPT_ELEMENTS:
            return self._allocated(elements)
        if elements > self._memory.shape[0]:
            self._memory = self._allocated(min(elements + elements // 2, _KEPT_ELEMENTS))
        return self._memory[:elements]

    def _allocated(self, elements: int) -> torch.Tensor:
        return torch.empty(elements, dtype=torch.int64, device=self.target.device)

    def _staged(self, elements: int) -> Ints:
        if elements > self._staging.shape[0]:
            self._staging = torch.empty(elements + elements // 2, dtype=torch.int64, pin_memory=self._on_cuda)
        return self._staging.numpy()


def aligned(elements: int) -> int:
    """``elements``, rounded up so that what follows is aligned."""
    return -(-elements // _ALIGNED_ELEMENTS) * _ALIGNED_ELEMENTS


def starts_of(lens: Sequence[int]) -> list[int]:
    """Where vectors of ``lens`` begin when they lie one after the other, each aligned, and where the last ends.

    >>> starts_of([3, 2])
    [0, 4, 6]
    """
    return list(accumulate(map(aligned, lens), initial=0))


def _as(memory: torch.Tensor, tensor: torch.Tensor) -> torch.Tensor:
    """``memory`` [>= enough] int64 with the dtype and shape of ``tensor``."""
    return memory.view(tensor.dtype)[: tensor.numel()].view(tensor.shape)


def _as_array(memory: Ints, tensor: torch.Tensor) -> npt.NDArray[Any]:
    """``memory`` [>= enough] int64 as a vector of the dtype and the number of elements of ``tensor``."""
    return memory.view(np.int32 if tensor.dtype == torch.int32 else np.int64)[: tensor.numel()]
