"""Owns the per-request vectors of a batch on the host, inactive rows emptied. Reads no table and judges nothing."""

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import torch

from service.kernels.operands import PADDING_ROW

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


_ZERO = np.int64(0)
_PADDING_ROW = np.int64(PADDING_ROW)
"""Operands of the vectors' own kind: Python integers would be converted anew at every use of them."""


@dataclass(frozen=True, slots=True)
class HostBatch:
    """What each request brings: [bs] each, and the offsets [bs+1]. Lens of inactive rows are 0, and none is negative.

    ``first_positions`` is where verification of a request starts: behind what its window leaves out.
    Where the lens add up to more than int64 holds, offsets wrap around: the first that does so is negative.
    """

    rows: Ints
    active: Flags
    prefix_lens: Ints
    extend_lens: Ints
    first_positions: Ints
    verify_offsets: Ints
    write_offsets: Ints


def read_batch(
    req_pool_indices: torch.Tensor, prefix_lens: torch.Tensor, extend_seq_lens: torch.Tensor, window: int
) -> HostBatch:
    """The batch of three CPU vectors [bs] int64 under a sliding window (0 or less: none)."""
    rows = req_pool_indices.numpy()
    active = rows != _PADDING_ROW
    prefix = np.maximum(prefix_lens.numpy(), _ZERO)
    extend = np.maximum(extend_seq_lens.numpy(), _ZERO)
    if np.count_nonzero(active) < rows.shape[0]:
        prefix *= active
        extend *= active
    return HostBatch(rows, active, prefix, extend, *_verified(prefix, window), exclusive_sums(extend))


def under_window(batch: HostBatch, window: int) -> HostBatch:
    """The same batch under another window (0 or less: none)."""
    first_positions, verify_offsets = _verified(batch.prefix_lens, window)
    return replace(batch, first_positions=first_positions, verify_offsets=verify_offsets)


def _verified(prefix: Ints, window: int) -> tuple[Ints, Ints]:
    """Where the verification of each request starts [bs], and the verify offsets [bs+1]."""
    if window <= 0:
        return np.zeros(prefix.shape[0], np.int64), exclusive_sums(prefix)
    first = np.maximum(prefix - window, _ZERO)
    return first, exclusive_sums(prefix - first)


def exclusive_sums(lens: Ints) -> Ints:
    """[n+1] int64: where each of n lens begins when they are laid end to end, the total last.

    >>> exclusive_sums(np.array([3, 0, 2])).tolist()
    [0, 3, 3, 5]
    """
    sums = np.zeros(lens.shape[0] + 1, np.int64)
    np.add.accumulate(lens, out=sums[1:])
    return sums


def smallest(values: Ints) -> int:
    """The smallest of at least one value."""
    # A search for its place takes a fifth of the time of ``values.min()``, which goes through Python.
    found: int = values.item(values.argmin())
    return found


def largest(values: Ints) -> int:
    """The largest of at least one value."""
    found: int = values.item(values.argmax())
    return found
