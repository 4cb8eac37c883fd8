"""Device functions that write the entries of runs, each of one request. Jit bodies only.

Operands travel in tuples: those of ``_batch_kernel``, and ``tokens`` is (tokens_ptr, rows, cols, valid_lens_ptr,
offset), ``entries`` is (slot_ptr, token_ptr, position_ptr, prev_slot_ptr, faults_ptr). No address but a base is
assumed to be aligned: the callers' vectors may begin anywhere, and one compilation serves them all.
"""

import triton
import triton.language as tl

from service.kernels._batch_kernel import NO_FAULT, _translate


@triton.jit
def _store_entries(
    first, lane, mask, slot, prev_slot, position, token, lut, entries, HAS_LUT: tl.constexpr, REPORTS: tl.constexpr
):
    """Store entries first + lane, their slots translated. Slots outside ``mask`` must be -1."""
    slot_ptr, token_ptr, position_ptr, prev_slot_ptr, faults_ptr = entries
    slot = slot.to(tl.int64)
    prev_slot = prev_slot.to(tl.int64)
    if HAS_LUT:
        if REPORTS:
            _, lut_len = lut
            at = first.to(tl.int64) + lane
            key = tl.where(slot >= lut_len, 2 * at, tl.where(prev_slot >= lut_len, 2 * at + 1, NO_FAULT))
            first_fault = tl.min(key)
            if first_fault != NO_FAULT:
                tl.atomic_min(faults_ptr, first_fault)
        slot = _translate(slot, lut)
        prev_slot = _translate(prev_slot, lut)
    # Written once and read by a later kernel: stored as data that streams through the cache.
    tl.store(slot_ptr + first + lane, slot, mask=mask, cache_modifier=".cs")
    tl.store(token_ptr + first + lane, token.to(tl.int64), mask=mask, cache_modifier=".cs")
    tl.store(position_ptr + first + lane, position, mask=mask, cache_modifier=".cs")
    tl.store(prev_slot_ptr + first + lane, prev_slot, mask=mask, cache_modifier=".cs")


@triton.jit
def _up_to(lanes, count):
    """How many of ``count`` lanes come before lane ``lanes``, an int64 of any size: int32 within [0, count]."""
    return tl.minimum(tl.maximum(lanes, 0), count).to(tl.int32)


@triton.jit
def _lies_in(lane, count):
    """Whether 0 <= lane < count, in one comparison."""
    return lane.to(tl.uint32) < count.to(tl.uint32)


@triton.jit
def _lies_in_64(value, count):
    """The same of int64 values of any size; ``count`` is not negative."""
    return value.to(tl.uint64) < count.to(tl.uint64)


@triton.jit
def _store_rows(
    first,
    count,
    position0,
    request,
    row,
    start,
    longest,
    lanes,
    table,
    lut,
    tokens,
    entries,
    HAS_LUT: tl.constexpr,
    HAS_TOKENS: tl.constexpr,
    REPORTS: tl.constexpr,
    STEP: tl.constexpr,
):
    """Write ``count`` int32 entries of ``request`` from flat index ``first`` on, at positions from ``position0`` on.

    All of one run are scalars, all of several runs [RUNS, 1]. Lanes [start, longest) are written, STEP at a time.
    """
    req_to_token_ptr, rows, cols = table
    # Bounded by the table: 0 <= row < rows, and positions below cols, which those of lanes < readable are.
    in_table = (row >= 0) & (row < rows)
    readable = tl.where(in_table, _up_to(cols - position0, count), 0)
    headless = (position0 == 0).to(tl.int32)
    prev_readable = tl.where(in_table, tl.maximum(_up_to(cols - position0 + 1, count) - headless, 0), 0)
    cells = req_to_token_ptr + (row * cols + position0)
    if HAS_TOKENS:
        tokens_ptr, token_rows, token_cols, valid_lens_ptr, offset = tokens
        # Bounded by the token table: 0 <= row < token_rows and 0 <= position + offset < token_cols. What is read
        # beyond the valid length is dropped afterwards, so that the read need not wait for it.
        token_at = position0 + offset
        token_first = _up_to(-token_at, count)
        token_stop = tl.where((row >= 0) & (row < token_rows), _up_to(token_cols - token_at, count), 0)
        token_count = tl.maximum(token_stop - token_first, 0)
        token_cells = tokens_ptr + (row * token_cols + token_at)
        valid_len = tl.load(valid_lens_ptr + request, mask=count > 0, other=0)
        valid_stop = _up_to(tl.minimum(tl.maximum(valid_len, 0), token_cols) - token_at, count)
    while start < longest:
        lane = start + lanes
        slot = tl.load(cells + lane, mask=_lies_in(lane, readable), other=-1)
        prev_slot = tl.load(cells + lane - 1, mask=_lies_in(lane - headless, prev_readable), other=-1)
        token = slot * 0 - 1
        if HAS_TOKENS:
            token = tl.load(token_cells + lane, mask=_lies_in(lane - token_first, token_count), other=-1)
            token = tl.where(lane < valid_stop, token, -1)
        mask = _lies_in(lane, count)
        _store_entries(first, lane, mask, slot, prev_slot, position0 + lane, token, lut, entries, HAS_LUT, REPORTS)
        start += STEP
