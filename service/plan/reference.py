"""The reference: one plan computed one element at a time. Slow and obvious on purpose; every backend must equal it."""

from dataclasses import dataclass, field

from service.errors import refusal
from service.plan.inputs import PlanInputs


@dataclass(slots=True)
class ReferencePlan:
    """A plan in plain integers, named as the service answers it."""

    verify_offsets: list[int] = field(default_factory=lambda: [0])
    verify_num_valid: int = 0
    verify_enable: bool = True
    verify_slot_indices: list[int] = field(default_factory=list)
    verify_expected_tokens: list[int] = field(default_factory=list)
    verify_expected_positions: list[int] = field(default_factory=list)
    verify_prev_slot_indices: list[int] = field(default_factory=list)
    write_offsets: list[int] = field(default_factory=lambda: [0])
    write_seed_slot_indices: list[int] = field(default_factory=list)


def plan_reference(inputs: PlanInputs) -> ReferencePlan:
    """The plan of judged inputs on the CPU; raises the contract's error for a slot outside the look-up table."""
    plan = ReferencePlan()
    for r in range(inputs.bs):
        n, e = _active_lens(inputs, r)
        start = max(0, n - inputs.swa_window_size) if inputs.swa_window_size > 0 else 0
        plan.verify_offsets.append(plan.verify_offsets[-1] + n - start)
        plan.write_offsets.append(plan.write_offsets[-1] + e)
    write_capacity = max(inputs.bs, 1) if inputs.write_req_capacity is None else inputs.write_req_capacity
    plan.write_offsets += [0] * (write_capacity - inputs.bs)

    total = plan.verify_offsets[-1]
    capacity = max(total, 1) if inputs.verify_capacity is None else inputs.verify_capacity
    plan.verify_enable = total <= capacity
    plan.verify_num_valid = min(total, capacity)
    if plan.verify_enable:
        _append_entries(plan, inputs)
    for r in range(inputs.bs):
        n, e = _active_lens(inputs, r)
        plan.write_seed_slot_indices.append(_slot(inputs, r, n - 1) if n > 0 and e > 0 else -1)
    return plan


def _active_lens(inputs: PlanInputs, r: int) -> tuple[int, int]:
    """Cached and new tokens of request r; none of either for a padding row."""
    if int(inputs.req_pool_indices[r]) == 0:
        return 0, 0
    return max(0, int(inputs.prefix_lens[r])), max(0, int(inputs.extend_seq_lens[r]))


def _append_entries(plan: ReferencePlan, inputs: PlanInputs) -> None:
    for r in range(inputs.bs):
        n, _ = _active_lens(inputs, r)
        for position in range(n - (plan.verify_offsets[r + 1] - plan.verify_offsets[r]), n):
            plan.verify_slot_indices.append(_slot(inputs, r, position))
            plan.verify_prev_slot_indices.append(_slot(inputs, r, position - 1) if position > 0 else -1)
            plan.verify_expected_positions.append(position)
            plan.verify_expected_tokens.append(_expected_token(inputs, r, position))


def _slot(inputs: PlanInputs, r: int, position: int) -> int:
    """Slot of request r at a position, through the look-up table if there is one."""
    slot = int(inputs.req_to_token[int(inputs.req_pool_indices[r]), position])
    lut = inputs.full_to_swa_index_mapping
    if lut is None or slot < 0:
        return slot
    if slot >= len(lut):
        raise refusal("slot-outside-lut", slot=slot, length=len(lut))
    return int(lut[slot])


def _expected_token(inputs: PlanInputs, r: int, position: int) -> int:
    tokens, valid_lens = inputs.req_to_verify_expected_tokens, inputs.req_to_verify_expected_tokens_valid_lens
    at = position + inputs.kv_token_id_vs_position_offset
    if tokens is None or valid_lens is None or not 0 <= at < int(valid_lens[r]):
        return -1
    return int(tokens[int(inputs.req_pool_indices[r]), at])
