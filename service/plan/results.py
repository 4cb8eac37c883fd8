"""Owns where the results of plans lie in one vector, so that they come back from a device in one copy."""

from dataclasses import dataclass

import numpy as np
import torch

from service.kernels.host_batch import Ints
from service.kernels.operands import INT64_MAX, EntryBuffers, OffsetBuffers
from service.plan.transfer import aligned

_FAULTS = 2
"""Elements that the faults of a plan take; see ``OffsetBuffers.faults``."""


@dataclass(frozen=True, slots=True)
class ResultLayout:
    """Where the results of one plan lie in an int64 vector that other plans share."""

    faults: slice
    arrays: tuple[slice, ...]
    """Verify offsets, write offsets, seeds, and the four arrays of entries unless there are no entries."""

    def buffers(
        self, results: torch.Tensor, unread: tuple[torch.Tensor, ...], *, reports: bool
    ) -> tuple[OffsetBuffers, EntryBuffers | None]:
        """The views of ``results`` that a backend fills; faults only if it ``reports`` them.

        The three int32 scalars of the in-process API repeat what is known of the plan already: they go to ``unread``.
        """
        verify_offsets, write_offsets, seeds, *columns = (results[array] for array in self.arrays)
        verify_num_valid, verify_enable, write_num_valid_reqs = unread
        return OffsetBuffers(
            verify_offsets=verify_offsets,
            verify_num_valid=verify_num_valid,
            verify_enable=verify_enable,
            write_offsets=write_offsets,
            write_seed_slot_indices=seeds,
            write_num_valid_reqs=write_num_valid_reqs,
            faults=results[self.faults] if reports else None,
        ), EntryBuffers(*columns) if columns else None


def lay_out(plans: list[tuple[int, int, int]]) -> tuple[list[ResultLayout], int]:
    """The layout of each plan of (bs, write_req_capacity, entries), and the elements of all of them.

    The faults of all come first, each array begins aligned.

    >>> layouts, elements = lay_out([(1, 1, 0)])
    >>> [(array.start, array.stop) for array in layouts[0].arrays], elements
    ([(2, 4), (4, 6), (6, 7)], 8)
    """
    at = _FAULTS * len(plans)
    layouts = []
    for number, (bs, write_req_capacity, entries) in enumerate(plans):
        arrays = []
        for length in (bs + 1, write_req_capacity + 1, bs, *(entries,) * (4 if entries else 0)):
            arrays.append(slice(at, at + length))
            at += aligned(length)
        layouts.append(ResultLayout(slice(_FAULTS * number, _FAULTS * (number + 1)), tuple(arrays)))
    return layouts, at


def no_faults(plans: int) -> Ints:
    """What the faults of so many plans hold before any is found."""
    return np.full(_FAULTS * plans, INT64_MAX)
