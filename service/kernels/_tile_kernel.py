"""Device functions that write one tile of verify entries. Jit bodies only.

Operands travel in tuples: those of ``_batch_kernel``, and ``tokens`` is (tokens_ptr, rows, cols, valid_lens_ptr,
offset), ``entries`` is (slot_ptr, token_ptr, position_ptr, prev_slot_ptr, faults_ptr).
"""

import triton
import triton.language as tl

from service.kernels._batch_kernel import (
    NO_FAULT,
    _cached_tokens,
    _owner_of,
    _read_request,
    _translate,
    _window_start,
)

MOST_RUNS = tl.constexpr(4)
"""Tiles of at most so many requests are written run by run, those of more lane by lane."""


@triton.jit
def _store_entries(
    at, mask, slot, prev_slot, position, token, lut, entries, HAS_LUT: tl.constexpr, REPORTS: tl.constexpr
):
    """Store entries at flat indices ``at``, their slots translated. Slots outside ``mask`` must be -1."""
    slot_ptr, token_ptr, position_ptr, prev_slot_ptr, faults_ptr = entries
    slot = slot.to(tl.int64)
    prev_slot = prev_slot.to(tl.int64)
    if HAS_LUT:
        if REPORTS:
            _, lut_len = lut
            key = tl.where(slot >= lut_len, 2 * at, tl.where(prev_slot >= lut_len, 2 * at + 1, NO_FAULT))
            first_fault = tl.min(key, 0)
            if first_fault != NO_FAULT:
                tl.atomic_min(faults_ptr, first_fault)
        slot = _translate(slot, lut)
        prev_slot = _translate(prev_slot, lut)
    tl.store(slot_ptr + at, slot, mask=mask)
    tl.store(token_ptr + at, token.to(tl.int64), mask=mask)
    tl.store(position_ptr + at, position, mask=mask)
    tl.store(prev_slot_ptr + at, prev_slot, mask=mask)


@triton.jit
def _store_run(
    start,
    first,
    end,
    request,
    row,
    position0,
    table,
    lut,
    tokens,
    entries,
    HAS_LUT: tl.constexpr,
    HAS_TOKENS: tl.constexpr,
    REPORTS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Write lanes [first, end) of the tile at ``start``: entries of one request, at position0 + lane."""
    req_to_token_ptr, rows, cols = table
    lanes = tl.arange(0, BLOCK)
    # Bounded by the table: 0 <= row < rows, and positions below cols: none is read from lane ``stop`` on.
    in_table = (row >= 0) & (row < rows)
    left = tl.where(in_table, tl.maximum(cols - position0, -1), -1)
    stop = tl.minimum(tl.maximum(left, 0), end).to(tl.int32)
    prev_stop = tl.minimum(left + 1, end).to(tl.int32)
    cells = req_to_token_ptr + (row * cols + position0)
    token = tl.full((BLOCK,), -1, tl.int32)
    if HAS_TOKENS:
        tokens_ptr, token_rows, token_cols, valid_lens_ptr, offset = tokens
        at0 = position0 + offset
        # Bounded by the token table: 0 <= row < token_rows and 0 <= at < min(valid_len, token_cols).
        valid_len = tl.minimum(tl.maximum(tl.load(valid_lens_ptr + request), 0), token_cols)
        known = tl.where((row >= 0) & (row < token_rows), valid_len - at0, 0)
        token_first = tl.minimum(tl.maximum(-at0, first), BLOCK).to(tl.int32)
        token_stop = tl.minimum(tl.maximum(known, 0), end).to(tl.int32)
        token_cells = tokens_ptr + (row * token_cols + at0)
        token = tl.load(token_cells + lanes, mask=(lanes >= token_first) & (lanes < token_stop), other=-1)
    first = first.to(tl.int32)
    end = end.to(tl.int32)
    has_prev = lanes + position0 > 0
    at = start + lanes
    if (first == 0) & (stop == BLOCK):
        # A whole tile of one request, the common case of long prefixes: nothing to mask but position 0.
        slot = tl.load(cells + lanes)
        prev_slot = tl.load(cells - 1 + lanes, mask=has_prev, other=-1)
        _store_entries(at, None, slot, prev_slot, position0 + lanes, token, lut, entries, HAS_LUT, REPORTS)
    else:
        own = lanes >= first
        slot_or_none = tl.load(cells + lanes, mask=own & (lanes < stop), other=-1)
        prev_or_none = tl.load(cells - 1 + lanes, mask=own & (lanes < prev_stop) & has_prev, other=-1)
        mask = own & (lanes < end)
        _store_entries(at, mask, slot_or_none, prev_or_none, position0 + lanes, token, lut, entries, HAS_LUT, REPORTS)


@triton.jit
def _store_runs(
    start,
    end,
    low,
    high,
    begin,
    batch,
    table,
    lut,
    tokens,
    entries,
    HAS_LUT: tl.constexpr,
    HAS_TOKENS: tl.constexpr,
    REPORTS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Write lanes [0, end) of the tile at ``start`` run by run: requests [low, high), the first at ``begin``."""
    request = low
    while request < high:
        row, length, first_position = _read_request(batch, request)
        _store_run(
            start,
            tl.maximum(begin - start, 0),
            tl.minimum(begin + length - start, end),
            request,
            row,
            first_position + start - begin,
            table,
            lut,
            tokens,
            entries,
            HAS_LUT,
            HAS_TOKENS,
            REPORTS,
            BLOCK,
        )
        begin += length
        request += 1


@triton.jit
def _store_mixed(
    start,
    end,
    low,
    high,
    verify_offsets_ptr,
    batch,
    table,
    lut,
    tokens,
    entries,
    HAS_LUT: tl.constexpr,
    HAS_TOKENS: tl.constexpr,
    REPORTS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Write lanes [0, end) of the tile at ``start`` lane by lane: entries of requests in [low, high)."""
    req_pool_indices_ptr, prefix_lens_ptr, _, window = batch
    req_to_token_ptr, rows, cols = table
    at = start + tl.arange(0, BLOCK)
    mask = at < start + end
    owner = _owner_of(verify_offsets_ptr, at, low, high)
    row = tl.load(req_pool_indices_ptr + owner, mask=mask, other=0)
    prefix = _cached_tokens(tl.load(prefix_lens_ptr + owner, mask=mask, other=0))
    position = _window_start(prefix, window) + at - tl.load(verify_offsets_ptr + owner, mask=mask, other=0)
    # Bounded by the table: 0 <= row < rows and 0 <= position < cols, or nothing is read.
    in_row = mask & (row >= 0) & (row < rows)
    cells = req_to_token_ptr + row * cols + position
    slot = tl.load(cells, mask=in_row & (position >= 0) & (position < cols), other=-1)
    prev_slot = tl.load(cells - 1, mask=in_row & (position > 0) & (position <= cols), other=-1)
    token = tl.full((BLOCK,), -1, tl.int32)
    if HAS_TOKENS:
        tokens_ptr, token_rows, token_cols, valid_lens_ptr, offset = tokens
        # Bounded by the token table: 0 <= row < token_rows and 0 <= token_at < min(valid_len, token_cols).
        token_at = position + offset
        valid_len = tl.minimum(tl.load(valid_lens_ptr + owner, mask=mask, other=0), token_cols)
        known = mask & (row >= 0) & (row < token_rows) & (token_at >= 0) & (token_at < valid_len)
        token = tl.load(tokens_ptr + row * token_cols + token_at, mask=known, other=-1)
    _store_entries(at, mask, slot, prev_slot, position, token, lut, entries, HAS_LUT, REPORTS)
