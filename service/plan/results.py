"""Owns where the results of a plan lie in one vector, so that they come back from a device in one copy."""

from dataclasses import dataclass

import torch

from service.kernels.host_batch import Ints
from service.kernels.operands import EntryBuffers, OffsetBuffers
from service.plan.transfer import starts_of

FAULTS = 2
"""Elements that the faults of a plan take; see ``OffsetBuffers.faults``."""


@dataclass(frozen=True, slots=True)
class ResultLayout:
    """The results of one plan in an int64 vector that other plans share."""

    first: int
    """Where they begin, the faults aside."""
    faults: int
    """Where the faults are."""
    lens: tuple[int, ...]
    """Elements of verify offsets, write offsets, seeds and the four arrays of entries, then two for int32 scalars."""

    @classmethod
    def of(cls, first: int, faults: int, plan: tuple[int, int, int]) -> "ResultLayout":
        """For a ``plan`` of (bs, write_req_capacity, entries)."""
        bs, write_req_capacity, entries = plan
        return cls(first, faults, (bs + 1, write_req_capacity + 1, bs, *(entries,) * 4, 2))

    @property
    def stop(self) -> int:
        """Where they end."""
        return self.first + starts_of(self.lens)[-1]

    def buffers(self, results: torch.Tensor, *, reports: bool) -> tuple[OffsetBuffers, EntryBuffers | None]:
        """The views of ``results`` that a backend fills; faults only if it ``reports`` them."""
        starts = [self.first + start for start in starts_of(self.lens)]
        verify_offsets, write_offsets, seeds, *columns, words = (
            results[start : start + length] for start, length in zip(starts, self.lens, strict=False)
        )
        # The three int32 scalars of the in-process API repeat what the sizes of the plan say; here nobody reads them.
        scalars = words.view(torch.int32)
        return OffsetBuffers(
            verify_offsets=verify_offsets,
            verify_num_valid=scalars[0:1],
            verify_enable=scalars[1:2],
            write_offsets=write_offsets,
            write_seed_slot_indices=seeds,
            write_num_valid_reqs=scalars[2:3],
            faults=results[self.faults : self.faults + FAULTS] if reports else None,
        ), EntryBuffers(*columns) if self.lens[3] else None

    def arrays(self, results: Ints) -> list[Ints]:
        """The results that came back: verify offsets, write offsets, seeds and the four arrays of entries."""
        starts = [self.first + start for start in starts_of(self.lens)]
        return [results[start : start + length] for start, length in zip(starts, self.lens[:-1], strict=False)]
