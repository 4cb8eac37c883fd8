"""Owns the per-request vectors of a batch on the host, inactive rows emptied. Reads no table and judges nothing."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from service.kernels.operands import PADDING_ROW

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class HostBatch:
    """What each request brings: [bs] each, and ``verify_offsets`` [bs+1]. Lens of inactive rows are 0.

    ``first_positions`` is where verification of a request starts: behind what its window leaves out.
    """

    rows: Ints
    active: Flags
    prefix_lens: Ints
    extend_lens: Ints
    first_positions: Ints
    verify_offsets: Ints


def read_batch(
    req_pool_indices: torch.Tensor, prefix_lens: torch.Tensor, extend_seq_lens: torch.Tensor, window: int
) -> HostBatch:
    """The batch of three CPU vectors [bs] int64 under a sliding window (0 or less: none)."""
    rows = req_pool_indices.numpy()
    active = rows != PADDING_ROW
    prefix = np.maximum(prefix_lens.numpy(), 0) * active
    extend = np.maximum(extend_seq_lens.numpy(), 0) * active
    if window > 0:
        first = np.maximum(prefix - window, 0)
        return HostBatch(rows, active, prefix, extend, first, exclusive_sums(prefix - first))
    return HostBatch(rows, active, prefix, extend, np.zeros_like(prefix), exclusive_sums(prefix))


def exclusive_sums(lens: Ints) -> Ints:
    """[n+1] int64: where each of n lens begins when they are laid end to end, the total last.

    >>> exclusive_sums(np.array([3, 0, 2])).tolist()
    [0, 3, 3, 5]
    """
    sums = np.zeros(lens.shape[0] + 1, np.int64)
    lens.cumsum(out=sums[1:])
    return sums
