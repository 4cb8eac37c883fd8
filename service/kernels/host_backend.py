"""The host backend: plans and scatters on CPU tensors, vectorised with numpy. Bit for bit what the kernels answer."""

from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from service.kernels.host_batch import Flags, HostBatch, Ints, largest, read_batch, smallest
from service.kernels.operands import (
    INT32_MAX,
    INT64_MAX,
    NO_SLOT,
    NO_TOKEN,
    EntryBuffers,
    OffsetBuffers,
    PlanOperands,
    ScatterOperands,
)

A = TypeVar("A")


@dataclass(frozen=True, slots=True)
class Entries(Generic[A]):
    """The verify entries, each [verify_num_valid] int64, or [0] when the plan is not enabled."""

    verify_slot_indices: A
    verify_expected_tokens: A
    verify_expected_positions: A
    verify_prev_slot_indices: A


@dataclass(frozen=True, slots=True)
class HostPlan:
    """A plan on the host. ``faults`` says, as ``OffsetBuffers.faults`` does, what makes the rest void."""

    verify_capacity: int
    write_offsets: Ints
    seeds: Ints
    entries: Entries[Ints] | None
    faults: tuple[int, int]


class _Tables(NamedTuple):
    slots: npt.NDArray[np.int32]
    lut: Ints | None


def plan_on_host(operands: PlanOperands, batch: HostBatch, *, with_entries: bool) -> HostPlan:
    """The plan of judged operands on the CPU; its entries are left out when they overflow, or unless wanted."""
    tables = _tables(operands)
    seeds, seed_fault = _seeds(batch, tables)
    entries, entry_fault = None, INT64_MAX
    if with_entries and batch.verify_offsets[-1] <= operands.verify_capacity:
        entries, entry_fault = _entries(operands, batch, tables)
    return HostPlan(operands.verify_capacity, batch.write_offsets, seeds, entries, (entry_fault, seed_fault))


def launch_plan(operands: PlanOperands, offsets: OffsetBuffers, entries: EntryBuffers | None) -> None:
    """Fill the buffers from judged operands on the CPU.

    A slot outside the look-up table is reported in ``offsets.faults``; then nothing else is written.
    """
    batch = read_batch(
        operands.req_pool_indices, operands.prefix_lens, operands.extend_seq_lens, operands.swa_window_size
    )
    plan = plan_on_host(operands, batch, with_entries=entries is not None)
    if offsets.faults is not None:
        offsets.faults.numpy()[:] = plan.faults
    if min(plan.faults) == INT64_MAX:
        store_plan(batch, plan, offsets, entries)


def store_plan(batch: HostBatch, plan: HostPlan, offsets: OffsetBuffers, entries: EntryBuffers | None) -> None:
    """Copy a plan without faults into the buffers; elements past its counts stay, but write offsets become 0."""
    bs, total = batch.rows.shape[0], int(batch.verify_offsets[-1])
    offsets.verify_offsets.numpy()[:] = batch.verify_offsets
    offsets.verify_num_valid.fill_(min(total, plan.verify_capacity, INT32_MAX))
    offsets.verify_enable.fill_(total <= plan.verify_capacity)
    write_offsets = offsets.write_offsets.numpy()
    write_offsets[: bs + 1] = plan.write_offsets
    write_offsets[bs + 1 :] = 0
    offsets.write_seed_slot_indices.numpy()[:bs] = plan.seeds
    offsets.write_num_valid_reqs.fill_(bs)
    if plan.entries is not None and entries is not None:
        for name in Entries.__slots__:
            getattr(entries, name).numpy()[:total] = getattr(plan.entries, name)


def launch_scatter(operands: ScatterOperands) -> None:
    """Store judged segments into the table, each cut at the row's end."""
    flat, pool = operands.flat_in.numpy(), operands.pool_out.numpy()
    offsets = operands.offsets.numpy()
    lens = np.diff(offsets)
    segment = np.repeat(np.arange(lens.shape[0]), lens)
    column = np.arange(flat.shape[0]) - offsets[segment]
    if operands.start_positions is not None:
        column += operands.start_positions.numpy()[segment]
    kept = column < pool.shape[1]
    # The low 32 bits, as a kernel's cast keeps them.
    pool[operands.req_pool_indices.numpy()[segment[kept]], column[kept]] = flat[kept].astype(np.int32)


def _tables(operands: PlanOperands) -> _Tables:
    lut = operands.full_to_swa_index_mapping
    return _Tables(operands.req_to_token.numpy(), None if lut is None else lut.numpy())


def _translated(slots: Ints, lut: Ints | None) -> tuple[Ints, Flags | None]:
    """Slots through the look-up table, and which of them lie outside it (None: none does)."""
    if lut is None:
        return slots, None
    if not slots.shape[0] or (smallest(slots) >= 0 and largest(slots) < lut.shape[0]):
        return lut.take(slots), None
    outside = slots >= lut.shape[0]
    translated = np.where(slots < 0, slots, lut[np.where((slots < 0) | outside, 0, slots)])
    return translated, outside if outside.any() else None


def _seeds(batch: HostBatch, tables: _Tables) -> tuple[Ints, int]:
    """Seed of every request [bs], and the first request whose seed lies outside the look-up table."""
    seeds = _filled(batch.rows.shape[0], NO_SLOT)
    # No len is negative, so the smaller one is 0 where either is.
    having = np.minimum(batch.extend_lens, batch.prefix_lens).nonzero()[0]
    slots = tables.slots[batch.rows[having], batch.prefix_lens[having] - 1].astype(np.int64)
    seeds[having], outside = _translated(slots, tables.lut)
    return seeds, INT64_MAX if outside is None else int(having[outside.argmax()])


def _entries(operands: PlanOperands, batch: HostBatch, tables: _Tables) -> tuple[Entries[Ints], int]:
    """All entries, and the key (see ``OffsetBuffers.faults``) of the first slot outside the look-up table."""
    total, starts = int(batch.verify_offsets[-1]), batch.verify_offsets[:-1]
    lens = batch.prefix_lens - batch.first_positions
    rows = batch.rows.repeat(lens)
    positions = np.arange(total)
    positions += (batch.first_positions - starts).repeat(lens)
    slots, outside = _translated(tables.slots[rows, positions].astype(np.int64), tables.lut)
    # Within a request the predecessor is the entry before. A head has none, unless it is the head of a window.
    # A request without entries starts where the next one does, or behind the last entry.
    prev_slots = np.empty(total + 1, np.int64)
    prev_slots[1:] = slots
    prev_slots[starts] = NO_SLOT
    fault = INT64_MAX if outside is None else 2 * int(outside.argmax())
    windowed = batch.first_positions.nonzero()[0]
    if windowed.shape[0]:
        heads = starts[windowed]
        before = tables.slots[batch.rows[windowed], batch.first_positions[windowed] - 1].astype(np.int64)
        prev_slots[heads], head_outside = _translated(before, tables.lut)
        if head_outside is not None:
            fault = min(fault, 2 * int(heads[head_outside.argmax()]) + 1)
    return Entries(slots, _tokens(operands, rows, positions, lens), positions, prev_slots[:-1]), fault


def _tokens(operands: PlanOperands, rows: Ints, positions: Ints, lens: Ints) -> Ints:
    """Expected token of every entry, NO_TOKEN where the token table has none to trust."""
    expected = _filled(positions.shape[0], NO_TOKEN)
    table, valid_lens = operands.req_to_verify_expected_tokens, operands.req_to_verify_expected_tokens_valid_lens
    if table is None or valid_lens is None:
        return expected
    shift = operands.kv_token_id_vs_position_offset
    at = positions + shift if shift else positions
    trusted = at < valid_lens.numpy().repeat(lens)
    if shift < 0:
        trusted &= at >= 0
    known = trusted.nonzero()[0]
    expected[known] = table.numpy()[rows[known], at[known]]
    return expected


def _filled(length: int, value: int) -> Ints:
    """[length] int64 of one value; half the time of ``np.full``."""
    filled = np.empty(length, np.int64)
    filled.fill(value)
    return filled
