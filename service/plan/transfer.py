"""Owns how operands travel to a device: all vectors packed into one copy, each table in a copy of its own."""

from dataclasses import replace
from itertools import accumulate

import torch

from service.kernels.operands import PlanOperands

_ALIGNED_ELEMENTS = 2
"""Packed vectors begin at multiples of 16 bytes, as allocations of their own would, so no kernel is compiled anew."""


def packed_len(lens: list[int]) -> int:
    """How many int64 elements vectors of the given lens take when they are packed."""
    return sum(map(_padded, lens))


def split(packed: torch.Tensor, lens: list[int]) -> list[torch.Tensor]:
    """Views of the vectors that lie one after the other in ``packed``, in their order.

    >>> [view.tolist() for view in split(torch.arange(6), [3, 2])]
    [[0, 1, 2], [4, 5]]
    """
    starts = accumulate(map(_padded, lens[:-1]), initial=0)
    return [packed[start : start + length] for start, length in zip(starts, lens, strict=True)]


def upload(operands: PlanOperands, device: torch.device) -> PlanOperands:
    """The same operands on ``device``."""
    lut, valid_lens = operands.full_to_swa_index_mapping, operands.req_to_verify_expected_tokens_valid_lens
    vectors = [operands.req_pool_indices, operands.prefix_lens, operands.extend_seq_lens]
    vectors += [vector for vector in (lut, valid_lens) if vector is not None]
    lens = [vector.shape[0] for vector in vectors]
    staging = torch.empty(packed_len(lens), dtype=torch.int64, pin_memory=device.type == "cuda")
    for part, vector in zip(split(staging, lens), vectors, strict=True):
        part.copy_(vector)
    parts = iter(split(staging.to(device, non_blocking=True), lens))
    tokens = operands.req_to_verify_expected_tokens
    return replace(
        operands,
        req_pool_indices=next(parts),
        prefix_lens=next(parts),
        extend_seq_lens=next(parts),
        req_to_token=operands.req_to_token.to(device),
        full_to_swa_index_mapping=None if lut is None else next(parts),
        req_to_verify_expected_tokens=None if tokens is None else tokens.to(device),
        req_to_verify_expected_tokens_valid_lens=None if valid_lens is None else next(parts),
    )


def _padded(length: int) -> int:
    return -(-length // _ALIGNED_ELEMENTS) * _ALIGNED_ELEMENTS
