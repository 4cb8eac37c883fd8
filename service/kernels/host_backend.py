"""The host backend: plans and scatters on CPU tensors, vectorised with numpy. Bit for bit what the kernels answer."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from service.kernels.operands import (
    INT32_MAX,
    INT64_MAX,
    NO_SLOT,
    NO_TOKEN,
    PADDING_ROW,
    EntryBuffers,
    OffsetBuffers,
    PlanOperands,
    ScatterOperands,
)

Ints = npt.NDArray[np.int64]


def launch_plan(operands: PlanOperands, offsets: OffsetBuffers, entries: EntryBuffers | None) -> None:
    """Fill the buffers from judged operands on the CPU.

    A slot outside the look-up table is reported in ``offsets.faults``; then nothing else is written.
    """
    batch = _read_batch(operands)
    seeds, seed_fault = _seeds(operands, batch)
    enabled = int(batch.verify_offsets[-1]) <= operands.verify_capacity
    computed, entry_fault = _entries(operands, batch) if enabled and entries is not None else (None, INT64_MAX)
    offsets.faults.copy_(torch.tensor([entry_fault, seed_fault]))
    if min(entry_fault, seed_fault) != INT64_MAX:
        return
    _write_offsets(operands, batch, offsets)
    offsets.write_seed_slot_indices.numpy()[: operands.bs] = seeds
    if computed is not None and entries is not None:
        total = computed.positions.shape[0]
        entries.verify_slot_indices.numpy()[:total] = computed.slots
        entries.verify_expected_tokens.numpy()[:total] = computed.tokens
        entries.verify_expected_positions.numpy()[:total] = computed.positions
        entries.verify_prev_slot_indices.numpy()[:total] = computed.prev_slots


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


@dataclass(frozen=True, slots=True)
class _Batch:
    """Per-request values [bs] with inactive rows emptied, and the prefix sums [bs+1] of what they verify."""

    rows: Ints
    prefix: Ints
    extend: Ints
    first_position: Ints
    verify_offsets: Ints


@dataclass(frozen=True, slots=True)
class _Entries:
    slots: Ints
    tokens: Ints
    positions: Ints
    prev_slots: Ints


def _read_batch(operands: PlanOperands) -> _Batch:
    rows = operands.req_pool_indices.numpy()
    active = rows != PADDING_ROW
    prefix = np.where(active, np.maximum(operands.prefix_lens.numpy(), 0), 0)
    extend = np.where(active, np.maximum(operands.extend_seq_lens.numpy(), 0), 0)
    window = operands.swa_window_size
    first = np.maximum(prefix - window, 0) if window > 0 else np.zeros_like(prefix)
    return _Batch(rows, prefix, extend, first, _exclusive_sums(prefix - first))


def _exclusive_sums(lens: Ints) -> Ints:
    sums = np.zeros(lens.shape[0] + 1, np.int64)
    np.cumsum(lens, out=sums[1:])
    return sums


def _write_offsets(operands: PlanOperands, batch: _Batch, out: OffsetBuffers) -> None:
    bs, total = operands.bs, int(batch.verify_offsets[-1])
    out.verify_offsets.numpy()[:] = batch.verify_offsets
    out.verify_num_valid.fill_(min(total, operands.verify_capacity, INT32_MAX))
    out.verify_enable.fill_(total <= operands.verify_capacity)
    write_offsets = out.write_offsets.numpy()
    write_offsets[: bs + 1] = _exclusive_sums(batch.extend)
    write_offsets[bs + 1 :] = 0
    out.write_num_valid_reqs.fill_(bs)


def _translated(operands: PlanOperands, slots: Ints) -> tuple[Ints, npt.NDArray[np.bool_]]:
    """Slots through the look-up table, and which of them lie outside it."""
    if operands.full_to_swa_index_mapping is None:
        return slots, np.zeros(slots.shape, np.bool_)
    lut = operands.full_to_swa_index_mapping.numpy()
    outside = slots >= lut.shape[0]
    return np.where(slots < 0, slots, lut[np.where((slots < 0) | outside, 0, slots)]), outside


def _seeds(operands: PlanOperands, batch: _Batch) -> tuple[Ints, int]:
    """Seed of every request [bs], and the first request whose seed lies outside the look-up table."""
    seeds = np.full(operands.bs, NO_SLOT, np.int64)
    having = np.flatnonzero((batch.extend > 0) & (batch.prefix > 0))
    table = operands.req_to_token.numpy()
    slots = table[batch.rows[having], batch.prefix[having] - 1].astype(np.int64)
    seeds[having], outside = _translated(operands, slots)
    return seeds, int(having[outside][0]) if outside.any() else INT64_MAX


def _entries(operands: PlanOperands, batch: _Batch) -> tuple[_Entries, int]:
    """All entries, and the key (see ``OffsetBuffers.faults``) of the first slot outside the look-up table."""
    table = operands.req_to_token.numpy()
    lens = np.diff(batch.verify_offsets)
    request = np.repeat(np.arange(operands.bs), lens)
    positions = np.arange(request.shape[0]) + (batch.first_position - batch.verify_offsets[:-1])[request]
    rows = batch.rows[request]
    slots, outside = _translated(operands, table[rows, positions].astype(np.int64))
    # Within a request the predecessor is the entry before; only heads look it up, and at position 0 they have none.
    prev_slots, prev_outside = np.empty_like(slots), np.empty_like(outside)
    prev_slots[1:], prev_outside[1:] = slots[:-1], outside[:-1]
    heads = batch.verify_offsets[:-1][lens > 0]
    head_positions = positions[heads]
    head_slots = np.where(head_positions > 0, table[rows[heads], head_positions - 1], NO_SLOT).astype(np.int64)
    prev_slots[heads], prev_outside[heads] = _translated(operands, head_slots)
    entries = _Entries(slots, _tokens(operands, request, positions), positions, prev_slots)
    return entries, min(_first(outside, 0), _first(prev_outside, 1))


def _first(flags: npt.NDArray[np.bool_], read_as: int) -> int:
    return 2 * int(flags.argmax()) + read_as if flags.any() else INT64_MAX


def _tokens(operands: PlanOperands, request: Ints, positions: Ints) -> Ints:
    """Expected token of every entry, NO_TOKEN where the token table has none to trust."""
    expected = np.full(positions.shape, NO_TOKEN, np.int64)
    table, valid_lens = operands.req_to_verify_expected_tokens, operands.req_to_verify_expected_tokens_valid_lens
    if table is None or valid_lens is None:
        return expected
    at = positions + operands.kv_token_id_vs_position_offset
    known = np.flatnonzero((at >= 0) & (at < valid_lens.numpy()[request]))
    expected[known] = table.numpy()[operands.req_pool_indices.numpy()[request[known]], at[known]]
    return expected
