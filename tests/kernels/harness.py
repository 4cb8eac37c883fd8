"""Runs a backend on poisoned buffers with guard cells around them, and reads back what it wrote."""

from dataclasses import dataclass
from typing import Any

import torch

from service.kernels.backend import BackendName, backend_named, triton_is_installed
from service.kernels.operands import INT64_MAX, EntryBuffers, OffsetBuffers, PlanOperands
from service.plan.inputs import PlanInputs
from service.plan.planner import judge

BACKENDS: tuple[BackendName, ...] = ("host", "triton") if triton_is_installed() else ("host",)
"""What can run here: where Triton has no wheel, the host backend alone."""
POISON = -77
GUARD = 5
"""Odd, so that the guarded vectors are not aligned as fresh allocations are."""


def device_of(name: BackendName, kernel_device: torch.device) -> torch.device:
    """Where a backend takes its tensors."""
    return kernel_device if name == "triton" else torch.device("cpu")


class Guarded:
    """Vectors between guard cells that nothing may touch."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._all: list[torch.Tensor] = []

    def vector(self, length: int, dtype: torch.dtype = torch.int64) -> torch.Tensor:
        """A poisoned vector of ``length`` elements."""
        whole = torch.full((length + 2 * GUARD,), POISON, dtype=dtype, device=self._device)
        self._all.append(whole)
        return whole[GUARD : GUARD + length]

    def assert_guards_survive(self) -> None:
        """No cell before or after a vector has changed."""
        for whole in self._all:
            assert (whole[:GUARD] == POISON).all()
            assert (whole[-GUARD:] == POISON).all()


@dataclass(slots=True)
class Filled:
    """What a backend wrote: plain integers, entries cut to those in use."""

    verify_offsets: list[int]
    verify_num_valid: int
    verify_enable: bool
    write_offsets: list[int]
    write_seed_slot_indices: list[int]
    write_num_valid_reqs: int
    verify_slot_indices: list[int]
    verify_expected_tokens: list[int]
    verify_expected_positions: list[int]
    verify_prev_slot_indices: list[int]
    faults: list[int]


def operands_on(inputs: PlanInputs, device: torch.device) -> PlanOperands:
    """The operands of judged inputs, on ``device``."""
    operands = inputs.operands(judge(inputs).sizes.verify_capacity)
    moved: dict[str, Any] = {
        name: value.to(device) for name, value in operands._asdict().items() if isinstance(value, torch.Tensor)
    }
    return operands._replace(**moved)


def run_backend(name: BackendName, inputs: PlanInputs, device: torch.device, spare: int = 7) -> Filled:
    """The plan as the backend writes it, with ``spare`` entries of room that must stay untouched."""
    sizes = judge(inputs).sizes
    return run_operands(name, operands_on(inputs, device), sizes.verify_total + spare, sizes.write_req_capacity)


def run_operands(name: BackendName, operands: PlanOperands, room: int, write_req_capacity: int) -> Filled:
    """The same for operands that nobody judged; ``room`` is how many entries the buffers hold."""
    guarded = Guarded(operands.req_pool_indices.device)
    vector, int32 = guarded.vector, torch.int32
    offsets = OffsetBuffers(
        vector(operands.bs + 1),
        vector(1, int32),
        vector(1, int32),
        vector(write_req_capacity + 1),
        vector(operands.bs),
        vector(1, int32),
        vector(2),
    )
    assert offsets.faults is not None
    offsets.faults.fill_(INT64_MAX)
    entries = EntryBuffers(vector(room), vector(room), vector(room), vector(room))
    backend_named(name).launch_plan(operands, offsets, entries)
    guarded.assert_guards_survive()
    faults = offsets.faults.tolist()
    enabled = bool(offsets.verify_enable.item())
    used = int(offsets.verify_num_valid.item()) if enabled and min(faults) == INT64_MAX else 0
    columns = (
        entries.verify_slot_indices,
        entries.verify_expected_tokens,
        entries.verify_expected_positions,
        entries.verify_prev_slot_indices,
    )
    if min(faults) == INT64_MAX:
        assert all((column[used:] == POISON).all() for column in columns)
    slots, tokens, positions, prev_slots = (column[:used].tolist() for column in columns)
    return Filled(
        verify_offsets=offsets.verify_offsets.tolist(),
        verify_num_valid=int(offsets.verify_num_valid.item()),
        verify_enable=enabled,
        write_offsets=offsets.write_offsets.tolist(),
        write_seed_slot_indices=offsets.write_seed_slot_indices.tolist(),
        write_num_valid_reqs=int(offsets.write_num_valid_reqs.item()),
        verify_slot_indices=slots,
        verify_expected_tokens=tokens,
        verify_expected_positions=positions,
        verify_prev_slot_indices=prev_slots,
        faults=faults,
    )
