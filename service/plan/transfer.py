"""Owns the memory that plans are computed in, and how operands travel to it and results back."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import torch

from service.kernels.backend import Target
from service.kernels.host_batch import Ints

_ALIGNED_ELEMENTS = 2
"""Tensors begin at multiples of 16 bytes, as allocations of their own would, so no kernel is compiled anew."""
_STAGED_ELEMENTS = 2**17
"""Larger tensors (1 MiB) are copied from where they are: another copy on the host would cost more than it saves."""
_KEPT_ELEMENTS = 2**25
"""Memory beyond this (256 MiB) goes back to torch's allocator after the plan that needed it."""


class Workspace:
    """Memory of one device that plans are computed in, used by one thread and kept from one plan to the next.

    Once it has grown to what plans need, a plan allocates nothing on the device. Small tensors travel there in one
    copy from pinned memory, and all results come back in one. Only events of this device's stream are waited for. It is
    used while its device is ``entered``, on the device's default stream.
    """

    def __init__(self, target: Target) -> None:
        self.target = target
        self._on_cuda = target.device.type == "cuda"
        self._memory = self._allocated(0)
        self._staging = np.empty(0, np.int64)
        self._pinned = torch.from_numpy(self._staging)
        # The stream is kept because asking for it takes longer than recording an event on it.
        self._stream = torch.cuda.default_stream(target.device) if self._on_cuda else None
        event: Any = torch.cuda.Event if self._on_cuda else _CopiesAreDone
        self._sent, self._arrived = event(), event()
        self.unread = tuple(torch.empty(1, dtype=torch.int32, device=target.device) for _ in range(3))
        """Three int32 scalars on the device for what is written there and wanted by nobody."""

    def entered(self) -> AbstractContextManager[object]:
        """Make the device current for a while: events, pinned memory and kernels are of the device that is current."""
        return torch.cuda.device(self.target.device) if self._on_cuda else nullcontext()

    def load(
        self, tensors: Sequence[torch.Tensor], head: Ints, results: int
    ) -> tuple[list[torch.Tensor], torch.Tensor]:
        """The CPU ``tensors`` on the device, and a vector of ``results`` int64 there that begins with ``head``.

        ``tensors`` are contiguous, int32 or int64. What lies behind ``head`` is undefined. All of it is overwritten by
        the next call.
        """
        sizes = [aligned(_elements(tensor)) for tensor in tensors]
        direct = sum(size for size in sizes if size > _STAGED_ELEMENTS)
        inputs = sum(sizes)
        memory = self._reserved(inputs + results)
        staging = self._staged(inputs - direct + len(head))
        views, at_direct, at_staged = [], 0, direct
        for tensor, size in zip(tensors, sizes, strict=True):
            if size > _STAGED_ELEMENTS:
                views.append(_view(memory, at_direct, tensor).copy_(tensor))
                at_direct += size
            else:
                views.append(_view(memory, at_staged, tensor))
                _stage(staging, at_staged - direct, tensor)
                at_staged += size
        staging[inputs - direct : inputs - direct + len(head)] = head
        sent = slice(direct, inputs + len(head))
        memory[sent].copy_(self._pinned[: sent.stop - sent.start], non_blocking=True)
        self._sent.record(self._stream)
        return views, memory[inputs : inputs + results]

    def read(self, results: torch.Tensor) -> Ints:
        """A copy on the host of a vector on the device, once everything launched so far is done."""
        host = torch.empty(results.shape, dtype=torch.int64, pin_memory=self._on_cuda)
        host.copy_(results, non_blocking=True)
        self._arrived.record(self._stream)
        self._arrived.synchronize()
        return host.numpy()

    def _reserved(self, elements: int) -> torch.Tensor:
        if elements > _KEPT_ELEMENTS:
            return self._allocated(elements)
        if elements > self._memory.shape[0]:
            self._memory = self._allocated(min(elements + elements // 2, _KEPT_ELEMENTS))
        return self._memory

    def _allocated(self, elements: int) -> torch.Tensor:
        return torch.empty(elements, dtype=torch.int64, device=self.target.device)

    def _staged(self, elements: int) -> Ints:
        """Pinned memory of at least so many elements that nothing reads from any more."""
        self._sent.synchronize()  # the copy of the last call
        if elements > self._staging.shape[0]:
            self._pinned = torch.empty(elements + elements // 2, dtype=torch.int64, pin_memory=self._on_cuda)
            self._staging = self._pinned.numpy()
        return self._staging


class _CopiesAreDone:
    """The event of a device whose copies are done when they return: the CPU."""

    def record(self, _stream: None) -> None:
        """Nothing to note."""

    def synchronize(self) -> None:
        """Nothing to wait for."""


def aligned(elements: int) -> int:
    """``elements``, rounded up so that what follows is aligned."""
    return -(-elements // _ALIGNED_ELEMENTS) * _ALIGNED_ELEMENTS


def _elements(tensor: torch.Tensor) -> int:
    """How many int64 elements hold the tensor."""
    return tensor.numel() if tensor.dtype == torch.int64 else -(-tensor.numel() // 2)


def _view(memory: torch.Tensor, at: int, tensor: torch.Tensor) -> torch.Tensor:
    """The part of ``memory`` from element ``at`` on that has the dtype and shape of ``tensor``."""
    if tensor.dtype == torch.int64:
        return memory[at : at + tensor.numel()].view(tensor.shape)
    return memory[at : at + _elements(tensor)].view(tensor.dtype)[: tensor.numel()].view(tensor.shape)


def _stage(staging: Ints, at: int, tensor: torch.Tensor) -> None:
    """Copy ``tensor`` into ``staging``, from element ``at`` on."""
    values = tensor.numpy().reshape(-1)
    if values.dtype == np.int64:
        staging[at : at + len(values)] = values
    else:
        staging[at : at + -(-len(values) // 2)].view(np.int32)[: len(values)] = values
