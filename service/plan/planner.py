"""Computes one plan for the service: judges the inputs, then runs the backend and brings the result to the host."""

from dataclasses import dataclass

import numpy as np
import torch

from service.errors import Refusal, refusal
from service.kernels.backend import Target
from service.kernels.host_backend import Entries, plan_on_host
from service.kernels.host_batch import HostBatch, Ints, read_batch
from service.kernels.operands import INT64_MAX, EntryBuffers, OffsetBuffers
from service.plan.inputs import PlanInputs
from service.plan.transfer import packed_len, split, upload
from service.plan.validate import validate_form, validate_values


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
class Plan:
    """A computed plan on the host; arrays are int64 and shaped as in ``service.spec.PLAN_OUTPUTS``."""

    sizes: PlanSizes
    verify_offsets: Ints
    write_offsets: Ints
    write_seed_slot_indices: Ints
    entries: Entries | None


@dataclass(frozen=True, slots=True)
class PlanJob:
    """Judged inputs on the CPU, and what is known of their plan before it is computed."""

    inputs: PlanInputs
    batch: HostBatch
    sizes: PlanSizes


def judge(inputs: PlanInputs) -> PlanJob:
    """The job that inputs on the CPU amount to, with the capacities' defaults filled in.

    Raises ``InvalidInput`` (a ValueError) with the contract's message for the first rule that they break.
    """
    validate_form(inputs)
    batch = read_batch(inputs.req_pool_indices, inputs.prefix_lens, inputs.extend_seq_lens, inputs.swa_window_size)
    validate_values(inputs, batch)
    total = int(batch.verify_offsets[-1])
    sizes = PlanSizes(
        bs=inputs.bs,
        verify_total=total,
        verify_capacity=max(total, 1) if inputs.verify_capacity is None else inputs.verify_capacity,
        write_req_capacity=max(inputs.bs, 1) if inputs.write_req_capacity is None else inputs.write_req_capacity,
    )
    return PlanJob(inputs, batch, sizes)


def compute_plan(job: PlanJob, target: Target, *, with_entries: bool) -> Plan:
    """The plan of a job, computed on the target's device; ``with_entries`` false leaves the verify entries out.

    Raises ``InvalidInput`` for a slot outside the look-up table.
    """
    return (_on_host if target.backend.name == "host" else _on_device)(job, target, with_entries)


def _on_host(job: PlanJob, _: Target, with_entries: bool) -> Plan:
    operands = job.inputs.operands(job.sizes.verify_capacity)
    plan = plan_on_host(operands, job.batch, with_entries=with_entries)
    if min(plan.faults) != INT64_MAX:
        raise slot_outside_lut(job.inputs, job.batch, plan.faults)
    entries = plan.entries
    if with_entries and entries is None:
        entries = Entries(*(np.empty(0, np.int64) for _ in range(4)))
    write_offsets = np.zeros(job.sizes.write_req_capacity + 1, np.int64)
    write_offsets[: job.sizes.bs + 1] = plan.write_offsets
    return Plan(job.sizes, job.batch.verify_offsets, write_offsets, plan.seeds, entries)


def _on_device(job: PlanJob, target: Target, with_entries: bool) -> Plan:
    sizes = job.sizes
    operands = upload(job.inputs.operands(sizes.verify_capacity), target.device)
    count = sizes.verify_total if with_entries and sizes.enabled else 0
    small, offsets = _offset_buffers(sizes, target.device, reports=job.inputs.lut_length > 0)
    packed_entries, entries = _entry_buffers(count, target.device)
    target.backend.launch_plan(operands, offsets, entries if count else None)
    verify_offsets, write_offsets, seeds = (part.numpy() for part in split(small.cpu(), _small_lens(sizes)))
    if offsets.faults is not None:
        entry_key, request = offsets.faults.tolist()
        if min(entry_key, request) != INT64_MAX:
            raise slot_outside_lut(job.inputs, job.batch, (entry_key, request))
    columns = [part.numpy() for part in split(packed_entries.cpu(), [count] * 4)]
    return Plan(sizes, verify_offsets, write_offsets, seeds, Entries(*columns) if with_entries else None)


def slot_outside_lut(inputs: PlanInputs, batch: HostBatch, faults: tuple[int, int]) -> Refusal:
    """The error for the first slot outside the look-up table, found again from where the backend saw it."""
    entry_key, request = faults
    if entry_key != INT64_MAX:
        entry, read_as_predecessor = divmod(entry_key, 2)
        request = int(np.searchsorted(batch.verify_offsets, entry, side="right")) - 1
        position = int(batch.first_positions[request] + entry - batch.verify_offsets[request]) - read_as_predecessor
    else:
        position = int(batch.prefix_lens[request]) - 1
    slot = int(inputs.req_to_token[int(batch.rows[request]), position])
    return refusal("slot-outside-lut", slot=slot, length=inputs.lut_length)


def _small_lens(sizes: PlanSizes) -> list[int]:
    return [sizes.bs + 1, sizes.write_req_capacity + 1, sizes.bs]


def _offset_buffers(sizes: PlanSizes, device: torch.device, *, reports: bool) -> tuple[torch.Tensor, OffsetBuffers]:
    """One packed int64 vector that comes back in one copy, and the views of it that the backend fills."""
    packed = torch.empty(packed_len(_small_lens(sizes)), dtype=torch.int64, device=device)
    verify_offsets, write_offsets, seeds = split(packed, _small_lens(sizes))
    # The three int32 scalars of the in-process API repeat what sizes say; here nobody reads them.
    scalars = torch.empty(3, dtype=torch.int32, device=device)
    return packed, OffsetBuffers(
        verify_offsets=verify_offsets,
        verify_num_valid=scalars[0:1],
        verify_enable=scalars[1:2],
        write_offsets=write_offsets,
        write_seed_slot_indices=seeds,
        write_num_valid_reqs=scalars[2:3],
        faults=torch.full((2,), INT64_MAX, device=device) if reports else None,
    )


def _entry_buffers(count: int, device: torch.device) -> tuple[torch.Tensor, EntryBuffers]:
    packed = torch.empty(packed_len([count] * 4), dtype=torch.int64, device=device)
    return packed, EntryBuffers(*split(packed, [count] * 4))
