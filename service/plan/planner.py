"""Computes plans for the service: judges the inputs, then runs the backend and brings the results to the host."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
import torch

from service.errors import Refusal, refusal, within
from service.kernels.host_backend import Entries, plan_on_host
from service.kernels.host_batch import HostBatch, Ints, read_batch, under_window
from service.kernels.operands import INT64_MAX
from service.plan.inputs import PlanInputs
from service.plan.plain_form import has_plain_inputs
from service.plan.results import ResultLayout, lay_out, no_faults
from service.plan.transfer import Workspace
from service.plan.validate import validate_form, validate_values

A = TypeVar("A")


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
class Plan(Generic[A]):
    """A computed plan; arrays are int64, shaped as in ``service.spec.PLAN_OUTPUTS``, on the host or on the device."""

    sizes: PlanSizes
    verify_offsets: A
    write_offsets: A
    write_seed_slot_indices: A
    entries: Entries[A] | None


@dataclass(frozen=True, slots=True)
class PlanJob:
    """Judged inputs, the batch on the CPU, and what is known of their plan before it is computed."""

    inputs: PlanInputs
    batch: HostBatch
    sizes: PlanSizes


def judge(inputs: PlanInputs, before: PlanJob | None = None) -> PlanJob:
    """The job that inputs amount to, with the capacities' defaults filled in. The batch must be on the CPU.

    The vectors of a batch that the job ``before`` has too are not read again.
    Raises ``InvalidInput`` (a ValueError) with the contract's message for the first rule that they break.
    """
    with within(*inputs.loc):
        if not has_plain_inputs(inputs):
            validate_form(inputs)
        batch = _batch_of(inputs, before)
        validate_values(inputs, batch)
    total = int(batch.verify_offsets[-1])
    sizes = PlanSizes(
        bs=inputs.bs,
        verify_total=total,
        verify_capacity=max(total, 1) if inputs.verify_capacity is None else inputs.verify_capacity,
        write_req_capacity=max(inputs.bs, 1) if inputs.write_req_capacity is None else inputs.write_req_capacity,
    )
    return PlanJob(inputs, batch, sizes)


def _batch_of(inputs: PlanInputs, before: PlanJob | None) -> HostBatch:
    vectors = inputs.req_pool_indices, inputs.prefix_lens, inputs.extend_seq_lens
    if before is not None:
        theirs = before.inputs.req_pool_indices, before.inputs.prefix_lens, before.inputs.extend_seq_lens
        if all(mine is other for mine, other in zip(vectors, theirs, strict=True)):
            return under_window(before.batch, inputs.swa_window_size)
    return read_batch(*vectors, inputs.swa_window_size)


def compute_plans(
    jobs: Sequence[PlanJob], workspace: Workspace, *, with_entries: bool, most_read: int = INT64_MAX
) -> list[Plan[Any]]:
    """The plan of each job, computed on the workspace's device; ``with_entries`` false leaves the verify entries out.

    Tensors that several jobs share travel to the device once, and all plans come back in one copy; if they have more
    than ``most_read`` elements together, their arrays stay on the device until the workspace is used again.
    Raises ``InvalidInput`` for the first slot outside a look-up table.
    """
    if workspace.target.backend.name == "host":
        return [_on_host(job, with_entries) for job in jobs]
    with workspace.entered():
        return _on_device(jobs, workspace, with_entries, most_read)


def _on_host(job: PlanJob, with_entries: bool) -> Plan[Ints]:
    operands = job.inputs.operands(job.sizes.verify_capacity)
    plan = plan_on_host(operands, job.batch, with_entries=with_entries)
    _refuse_faults(job, plan.faults)
    entries = plan.entries
    if with_entries and entries is None:
        entries = _no_entries()
    write_offsets = np.zeros(job.sizes.write_req_capacity + 1, np.int64)
    write_offsets[: job.sizes.bs + 1] = plan.write_offsets
    return Plan(job.sizes, job.batch.verify_offsets, write_offsets, plan.seeds, entries)


def _on_device(jobs: Sequence[PlanJob], workspace: Workspace, with_entries: bool, most_read: int) -> list[Plan[Any]]:
    counts = [job.sizes.verify_total if with_entries and job.sizes.enabled else 0 for job in jobs]
    layouts, elements = lay_out(
        [(job.sizes.bs, job.sizes.write_req_capacity, count) for job, count in zip(jobs, counts, strict=True)]
    )
    travelling = {id(tensor): tensor for job in jobs for tensor in job.inputs.travelling()}
    views, results = workspace.load(list(travelling.values()), no_faults(len(jobs)), elements)
    there = dict(zip(travelling, views, strict=True))
    for job, layout in zip(jobs, layouts, strict=True):
        buffers = layout.buffers(results, workspace.unread, reports=job.inputs.lut_length > 0)
        workspace.target.backend.launch_plan(job.inputs.operands(job.sizes.verify_capacity, there), *buffers)
    stays = elements > most_read
    found = workspace.read(results[: layouts[-1].faults.stop] if stays else results)
    arrays = results if stays else found
    return [_read_plan(job, layout, found, arrays, with_entries) for job, layout in zip(jobs, layouts, strict=True)]


def _read_plan(
    job: PlanJob, layout: ResultLayout, faults: Ints, arrays: Ints | torch.Tensor, with_entries: bool
) -> Plan[Any]:
    entry_key, request = faults[layout.faults].tolist()
    _refuse_faults(job, (entry_key, request))
    verify_offsets, write_offsets, seeds, *columns = (arrays[array] for array in layout.arrays)
    entries: Any = Entries(*columns) if columns else _no_entries()
    return Plan(job.sizes, verify_offsets, write_offsets, seeds, entries if with_entries else None)


def _no_entries() -> Entries[Ints]:
    return Entries(*(np.empty(0, np.int64) for _ in range(4)))


def _refuse_faults(job: PlanJob, faults: tuple[int, int]) -> None:
    if min(faults) != INT64_MAX:
        with within(*job.inputs.loc):
            raise slot_outside_lut(job.inputs, job.batch, faults)


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
