"""Computes one plan for the service: sizes, buffers, launches, and the copy back. Judges nothing."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from service.errors import Refusal, refusal
from service.kernels.backend import Backend
from service.kernels.operands import INT64_MAX, EntryBuffers, OffsetBuffers
from service.plan.inputs import PlanInputs
from service.plan.transfer import packed_len, split, upload

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class PlanSizes:
    """How large a plan is: everything that is known before it is computed."""

    bs: int
    verify_total: int
    verify_capacity: int
    write_req_capacity: int

    @property
    def enabled(self) -> bool:
        """Whether the entries fit their capacity."""
        return self.verify_total <= self.verify_capacity


@dataclass(frozen=True, slots=True)
class Entries:
    """The verify entries, each [verify_num_valid] int64, or [0] when the plan is not enabled."""

    verify_slot_indices: Ints
    verify_expected_tokens: Ints
    verify_expected_positions: Ints
    verify_prev_slot_indices: Ints


@dataclass(frozen=True, slots=True)
class Plan:
    """A computed plan on the host; arrays are int64 and shaped as in ``service.spec.PLAN_OUTPUTS``."""

    sizes: PlanSizes
    verify_offsets: Ints
    write_offsets: Ints
    write_seed_slot_indices: Ints
    entries: Entries | None


def plan_sizes(inputs: PlanInputs) -> PlanSizes:
    """Sizes of the plan of judged inputs on the CPU, with the capacities' defaults filled in."""
    prefix = np.where(inputs.req_pool_indices.numpy() != 0, np.maximum(inputs.prefix_lens.numpy(), 0), 0)
    window = inputs.swa_window_size
    total = int((np.minimum(prefix, window) if window > 0 else prefix).sum())
    return PlanSizes(
        bs=inputs.bs,
        verify_total=total,
        verify_capacity=max(total, 1) if inputs.verify_capacity is None else inputs.verify_capacity,
        write_req_capacity=max(inputs.bs, 1) if inputs.write_req_capacity is None else inputs.write_req_capacity,
    )


def compute_plan(
    inputs: PlanInputs, sizes: PlanSizes, device: torch.device, backend: Backend, *, with_entries: bool
) -> Plan:
    """The plan of judged inputs on the CPU, computed on ``device``.

    ``with_entries`` false leaves the verify entries out. Raises ``InvalidInput`` for a slot outside the look-up table.
    """
    operands = inputs.operands(sizes.verify_capacity)
    if backend.name == "triton":
        operands = upload(operands, device)
    count = sizes.verify_total if with_entries and sizes.enabled else 0
    small, offsets = _offset_buffers(sizes, device)
    packed_entries, entries = _entry_buffers(count, device)
    backend.launch_plan(operands, offsets, entries if count else None)
    verify_offsets, write_offsets, seeds, faults = (part.numpy() for part in split(small.cpu(), _small_lens(sizes)))
    if faults.min() != INT64_MAX:
        raise slot_outside_lut(inputs, faults)
    columns = [part.numpy() for part in split(packed_entries.cpu(), [count] * 4)]
    return Plan(sizes, verify_offsets, write_offsets, seeds, Entries(*columns) if with_entries else None)


def _small_lens(sizes: PlanSizes) -> list[int]:
    return [sizes.bs + 1, sizes.write_req_capacity + 1, sizes.bs, 2]


def _offset_buffers(sizes: PlanSizes, device: torch.device) -> tuple[torch.Tensor, OffsetBuffers]:
    """One packed int64 vector that comes back in one copy, and the views of it that the backend fills."""
    packed = torch.empty(packed_len(_small_lens(sizes)), dtype=torch.int64, device=device)
    verify_offsets, write_offsets, seeds, faults = split(packed, _small_lens(sizes))
    # The three int32 scalars of the in-process API repeat what sizes say; here nobody reads them.
    scalars = torch.empty(3, dtype=torch.int32, device=device)
    return packed, OffsetBuffers(
        verify_offsets=verify_offsets,
        verify_num_valid=scalars[0:1],
        verify_enable=scalars[1:2],
        write_offsets=write_offsets,
        write_seed_slot_indices=seeds,
        write_num_valid_reqs=scalars[2:3],
        faults=faults,
    )


def _entry_buffers(count: int, device: torch.device) -> tuple[torch.Tensor, EntryBuffers]:
    packed = torch.empty(packed_len([count] * 4), dtype=torch.int64, device=device)
    return packed, EntryBuffers(*split(packed, [count] * 4))


def slot_outside_lut(inputs: PlanInputs, faults: Ints) -> Refusal:
    """The error for the first slot outside the look-up table, found again from where the backend saw it."""
    rows, prefix = inputs.req_pool_indices.numpy(), inputs.prefix_lens.numpy()
    entry_key, request = int(faults[0]), int(faults[1])
    if entry_key != INT64_MAX:
        lens = np.where(rows != 0, np.maximum(prefix, 0), 0)
        window = inputs.swa_window_size
        ends = np.cumsum(np.minimum(lens, window) if window > 0 else lens)
        entry = entry_key // 2
        request = int(np.searchsorted(ends, entry, side="right"))
        position = int(prefix[request]) - (int(ends[request]) - entry) - entry_key % 2
    else:
        position = int(prefix[request]) - 1
    slot = int(inputs.req_to_token[int(rows[request]), position])
    return refusal("slot-outside-lut", slot=slot, length=inputs.lut_length)
