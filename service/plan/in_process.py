"""The in-process API: plans filled in place into the caller's buffers, with the names that engines already use."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from service.errors import refusal
from service.kernels.backend import backend_for
from service.kernels.host_backend import plan_on_host, store_plan
from service.kernels.host_batch import HostBatch, read_batch
from service.kernels.operands import INT64_MAX, EntryBuffers, OffsetBuffers
from service.plan.inputs import PlanInputs
from service.plan.plain_form import has_plain_form
from service.plan.planner import slot_outside_lut
from service.plan.reference import plan_reference
from service.plan.require import require_tensor
from service.plan.validate import DEFAULT_CALLER, Buffer, validate_form, validate_values

_SEEDS = "write_plan_out.write_seed_slot_indices"


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyPlan:
    """What to verify before the step: one element per entry, in batch order and then by position.

    ``verify_slot_indices``, ``verify_expected_tokens`` (-1: not checked), ``verify_expected_positions`` and
    ``verify_prev_slot_indices`` (-1: no predecessor) are [verify_capacity] int64. ``verify_num_valid`` [1] int32 says
    how many are in use; ``enable`` [1] int32 is 0 when they would not fit, and then none is written.
    """

    verify_slot_indices: torch.Tensor
    verify_expected_tokens: torch.Tensor
    verify_expected_positions: torch.Tensor
    verify_prev_slot_indices: torch.Tensor
    verify_num_valid: torch.Tensor
    enable: torch.Tensor

    @classmethod
    def allocate(cls, *, verify_capacity: int, device: torch.device | str) -> VerifyPlan:
        """Buffers for ``verify_capacity`` > 0 entries on ``device``, not initialised except ``enable``, which is 1."""
        if verify_capacity <= 0:
            raise refusal("verify-capacity-not-positive", value=verify_capacity)
        entries = (torch.empty(verify_capacity, dtype=torch.int64, device=device) for _ in range(4))
        slots, tokens, positions, prev_slots = entries
        return cls(
            verify_slot_indices=slots,
            verify_expected_tokens=tokens,
            verify_expected_positions=positions,
            verify_prev_slot_indices=prev_slots,
            verify_num_valid=torch.empty(1, dtype=torch.int32, device=device),
            enable=torch.ones(1, dtype=torch.int32, device=device),
        )

    @staticmethod
    def allocation_bytes(verify_capacity: int) -> int:
        """How many bytes ``allocate`` takes."""
        return 4 * 8 * verify_capacity + 2 * 4

    def zero_for_testing_(self) -> VerifyPlan:
        """This plan with every element at rest: slots, positions and counts 0, expected tokens -1."""
        self.verify_expected_tokens.fill_(-1)
        for tensor in (self.verify_slot_indices, self.verify_expected_positions, self.verify_prev_slot_indices):
            tensor.zero_()
        self.verify_num_valid.zero_()
        self.enable.zero_()
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class WritePlan:
    """Where each request's new tokens go: one element per request of the batch.

    ``write_offsets`` [write_req_capacity+1] int64 are exclusive prefix sums, 0 beyond the batch;
    ``write_seed_slot_indices`` [write_req_capacity] int64 is the slot that a hash chain continues from (-1: none);
    ``write_num_valid_reqs`` [1] int32 is the size of the batch.
    """

    write_offsets: torch.Tensor
    write_seed_slot_indices: torch.Tensor
    write_num_valid_reqs: torch.Tensor

    @classmethod
    def allocate(cls, *, write_req_capacity: int, device: torch.device | str) -> WritePlan:
        """Buffers for ``write_req_capacity`` > 0 requests on ``device``, not initialised."""
        if write_req_capacity <= 0:
            raise refusal("write-req-capacity-not-positive", value=write_req_capacity)
        return cls(
            write_offsets=torch.empty(write_req_capacity + 1, dtype=torch.int64, device=device),
            write_seed_slot_indices=torch.empty(write_req_capacity, dtype=torch.int64, device=device),
            write_num_valid_reqs=torch.empty(1, dtype=torch.int32, device=device),
        )

    @staticmethod
    def allocation_bytes(write_req_capacity: int) -> int:
        """How many bytes ``allocate`` takes."""
        return 8 * (2 * write_req_capacity + 1) + 4

    def zero_for_testing_(self) -> WritePlan:
        """This plan with every element 0."""
        self.write_offsets.zero_()
        self.write_seed_slot_indices.zero_()
        self.write_num_valid_reqs.zero_()
        return self


def launch_canary_plan_kernels(
    *,
    verify_plan_out: VerifyPlan,
    write_plan_out: WritePlan,
    req_pool_indices: torch.Tensor,
    prefix_lens: torch.Tensor,
    extend_seq_lens: torch.Tensor,
    req_to_token: torch.Tensor,
    swa_window_size: int = 0,
    full_to_swa_index_mapping: torch.Tensor | None = None,
    verify_capacity: int,
    req_to_verify_expected_tokens: torch.Tensor | None = None,
    req_to_verify_expected_tokens_valid_lens: torch.Tensor | None = None,
    kv_token_id_vs_position_offset: int = 0,
) -> None:
    """Both plans of a batch, filled in place. Shapes, dtypes and meanings are those of ``service.spec``.

    On a CUDA device this only launches: no synchronisation, and safe under graph capture once a first call has
    compiled the kernels. Values are not judged there; an index out of range reads nothing and yields slot -1.
    On the CPU the host backend runs and values are judged. Elements past the valid counts stay as they are, except
    that ``write_offsets`` beyond the batch becomes 0.

    Raises ValueError as the contract says, and then changes nothing.
    """
    inputs = PlanInputs(
        req_pool_indices=req_pool_indices,
        prefix_lens=prefix_lens,
        extend_seq_lens=extend_seq_lens,
        req_to_token=req_to_token,
        swa_window_size=swa_window_size,
        full_to_swa_index_mapping=full_to_swa_index_mapping,
        verify_capacity=verify_capacity,
        write_req_capacity=_room_of(write_plan_out.write_seed_slot_indices, _SEEDS),
        req_to_verify_expected_tokens=req_to_verify_expected_tokens,
        req_to_verify_expected_tokens_valid_lens=req_to_verify_expected_tokens_valid_lens,
        kv_token_id_vs_position_offset=kv_token_id_vs_position_offset,
    )
    if not _are_plain(inputs, verify_plan_out, write_plan_out):
        validate_form(inputs, buffers=_buffers(verify_plan_out, write_plan_out))
    _launch(inputs, verify_plan_out, write_plan_out)


def launch_canary_plan_kernels_torch_reference(
    *,
    verify_plan_out: VerifyPlan,
    write_plan_out: WritePlan,
    req_pool_indices: torch.Tensor,
    prefix_lens: torch.Tensor,
    extend_seq_lens: torch.Tensor,
    req_to_token: torch.Tensor,
    swa_window_size: int = 0,
    full_to_swa_index_mapping: torch.Tensor | None = None,
    verify_capacity: int,
    req_to_verify_expected_tokens: torch.Tensor | None = None,
    req_to_verify_expected_tokens_valid_lens: torch.Tensor | None = None,
    kv_token_id_vs_position_offset: int = 0,
) -> None:
    """The same plans from the slow reference, on any device; copies to the host, so never under graph capture."""
    inputs = PlanInputs(
        req_pool_indices=req_pool_indices,
        prefix_lens=prefix_lens,
        extend_seq_lens=extend_seq_lens,
        req_to_token=req_to_token,
        swa_window_size=swa_window_size,
        full_to_swa_index_mapping=full_to_swa_index_mapping,
        verify_capacity=verify_capacity,
        write_req_capacity=_room_of(write_plan_out.write_seed_slot_indices, _SEEDS),
        req_to_verify_expected_tokens=req_to_verify_expected_tokens,
        req_to_verify_expected_tokens_valid_lens=req_to_verify_expected_tokens_valid_lens,
        kv_token_id_vs_position_offset=kv_token_id_vs_position_offset,
    )
    validate_form(inputs, caller=f"{DEFAULT_CALLER}_torch_reference", buffers=_buffers(verify_plan_out, write_plan_out))
    _fill_from_reference(inputs.on_host(), verify_plan_out, write_plan_out)


def _room_of(buffer: torch.Tensor, name: str) -> int:
    """How many elements a buffer has room for; refused if it is no tensor."""
    require_tensor(buffer, name)
    return buffer.numel()


def _buffers(verify: VerifyPlan, write: WritePlan) -> list[Buffer]:
    capacity = _room_of(verify.verify_slot_indices, "verify_plan_out.verify_slot_indices")
    requests = _room_of(write.write_seed_slot_indices, _SEEDS)
    int64, int32 = torch.int64, torch.int32
    return [
        Buffer(verify.verify_slot_indices, "verify_plan_out.verify_slot_indices", int64, capacity),
        Buffer(verify.verify_expected_tokens, "verify_plan_out.verify_expected_tokens", int64, capacity),
        Buffer(verify.verify_expected_positions, "verify_plan_out.verify_expected_positions", int64, capacity),
        Buffer(verify.verify_prev_slot_indices, "verify_plan_out.verify_prev_slot_indices", int64, capacity),
        Buffer(verify.verify_num_valid, "verify_plan_out.verify_num_valid", int32, 1),
        Buffer(verify.enable, "verify_plan_out.enable", int32, 1),
        Buffer(write.write_offsets, "write_plan_out.write_offsets", int64, requests + 1),
        Buffer(write.write_seed_slot_indices, _SEEDS, int64, requests),
        Buffer(write.write_num_valid_reqs, "write_plan_out.write_num_valid_reqs", int32, 1),
    ]


def _are_plain(inputs: PlanInputs, verify: VerifyPlan, write: WritePlan) -> bool:
    return has_plain_form(
        inputs,
        columns=(
            verify.verify_slot_indices,
            verify.verify_expected_tokens,
            verify.verify_expected_positions,
            verify.verify_prev_slot_indices,
        ),
        counts=(verify.verify_num_valid, verify.enable, write.write_num_valid_reqs),
        write_offsets=write.write_offsets,
        seeds=write.write_seed_slot_indices,
    )


def _launch(inputs: PlanInputs, verify: VerifyPlan, write: WritePlan) -> None:
    device = inputs.req_pool_indices.device
    offsets = OffsetBuffers(
        verify_offsets=inputs.prefix_lens.new_empty(inputs.bs + 1),
        verify_num_valid=verify.verify_num_valid,
        verify_enable=verify.enable,
        write_offsets=write.write_offsets,
        write_seed_slot_indices=write.write_seed_slot_indices,
        write_num_valid_reqs=write.write_num_valid_reqs,
        faults=None,  # on a device nobody waits for the answer, and the host says it by itself
    )
    entries = EntryBuffers(
        verify.verify_slot_indices,
        verify.verify_expected_tokens,
        verify.verify_expected_positions,
        verify.verify_prev_slot_indices,
    )
    operands = inputs.operands(verify.verify_slot_indices.shape[0])
    if device.type != "cpu":
        backend_for(device).launch_plan(operands, offsets, entries)
        return
    batch = _judged(inputs)
    plan = plan_on_host(operands, batch, with_entries=True)
    if min(plan.faults) != INT64_MAX:
        raise slot_outside_lut(inputs, batch, plan.faults)
    store_plan(batch, plan, offsets, entries)


def _judged(inputs: PlanInputs) -> HostBatch:
    batch = read_batch(inputs.req_pool_indices, inputs.prefix_lens, inputs.extend_seq_lens, inputs.swa_window_size)
    validate_values(inputs, batch)
    return batch


def _fill_from_reference(inputs: PlanInputs, verify: VerifyPlan, write: WritePlan) -> None:
    _judged(inputs)
    plan = plan_reference(inputs)
    columns = (
        (verify.verify_slot_indices, plan.verify_slot_indices),
        (verify.verify_expected_tokens, plan.verify_expected_tokens),
        (verify.verify_expected_positions, plan.verify_expected_positions),
        (verify.verify_prev_slot_indices, plan.verify_prev_slot_indices),
        (write.write_offsets, plan.write_offsets),
        (write.write_seed_slot_indices, plan.write_seed_slot_indices),
    )
    for buffer, values in columns:
        buffer[: len(values)].copy_(torch.tensor(values, dtype=torch.int64))
    verify.verify_num_valid.fill_(plan.verify_num_valid)
    verify.enable.fill_(plan.verify_enable)
    write.write_num_valid_reqs.fill_(inputs.bs)
