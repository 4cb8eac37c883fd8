"""Device functions that write a span of verify entries, found among the requests of a block. Jit bodies only."""

import triton
import triton.language as tl

from service.kernels._batch_kernel import _cached_tokens, _read_request, _window_start
from service.kernels._tile_kernel import _lies_in_64, _store_entries, _store_rows

_MOST_RUNS = tl.constexpr(6)
"""Spans of at most so many requests are written one request after the other, in those of more every lane looks its own
request up.
"""
_LANES = tl.constexpr(256)
"""Entries that are written at once in the latter."""
_GRAIN = tl.constexpr(64)
"""Shares of entries begin at multiples of so many: whole sectors of memory."""
_SECTOR = tl.constexpr(16)
"""Entries between the borders of memory that lanes keep to: 128 bytes of an int64 vector."""


@triton.jit
def _share_of(part, parts, total):
    """Which of ``total`` entries one of ``parts`` equal parts has: first and stop, which are not in order if none."""
    share = tl.cdiv(tl.cdiv(total, parts.to(total.dtype)), _GRAIN) * _GRAIN
    first = part.to(total.dtype) * share
    return first, tl.minimum(first + share, total)


@triton.jit
def _store_long_runs(
    first, stop, low, high, begin, batch, table, lut, tokens, entries, HAS_LUT: tl.constexpr,
    HAS_TOKENS: tl.constexpr, REPORTS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Write entries [first, stop), which belong to requests [low, high), one request after the other.

    ``begin`` is where the entries of request ``low`` begin.
    """
    request = low
    while request < high:
        row, length, first_position = _read_request(batch, request)
        end = begin + length.to(begin.dtype)
        at = tl.maximum(begin, first)
        count = (tl.minimum(end, stop) - at).to(tl.int32)
        skew = (at % _SECTOR).to(tl.int32)
        _store_rows(
            at, count, first_position + (at - begin), request, row, -skew, count, tl.arange(0, BLOCK), table, lut,
            tokens, entries, HAS_LUT, HAS_TOKENS, REPORTS, BLOCK,
        )  # fmt: skip
        begin = end
        request += 1


@triton.jit
def _run_of(begins_ptr, runs, at):
    """Run of each flat index ``at``: the last of ``runs`` that does not begin beyond it, or the first one."""
    run = (at * 0).to(tl.int32)
    left = runs
    while left > 1:
        half = left // 2
        # Bounded by the runs: 0 <= run and run + half < run + left <= runs.
        begin = tl.load(begins_ptr + (run + half)).to(at.dtype)
        run = tl.where(begin <= at, run + half, run)
        left -= half
    return run


@triton.jit
def _read_token(row, position, request, mask, tokens):
    """The token expected of each lane: at its position moved by the offset, where that lies in the valid part."""
    tokens_ptr, token_rows, token_cols, valid_lens_ptr, offset = tokens
    valid_len = tl.load(valid_lens_ptr + request, mask=mask, other=0)
    at = position + offset
    # Bounded by the token table: 0 <= row < token_rows and 0 <= position + offset < token_cols. What is read beyond
    # the valid length is dropped afterwards, so that the read need not wait for it.
    in_table = _lies_in_64(row, token_rows) & _lies_in_64(at, token_cols)
    token = tl.load(tokens_ptr + (row * token_cols + at), mask=mask & in_table, other=-1)
    return tl.where(at < valid_len, token, -1)


@triton.jit
def _store_short_runs(
    first, stop, low, high, verify_offsets_ptr, batch, table, lut, tokens, entries, HAS_LUT: tl.constexpr,
    HAS_TOKENS: tl.constexpr, REPORTS: tl.constexpr,
):  # fmt: skip
    """Write entries [first, stop), which belong to requests [low, high): every lane looks up whose it is."""
    req_pool_indices_ptr, prefix_lens_ptr, _, window = batch
    req_to_token_ptr, rows, cols = table
    lanes = tl.arange(0, _LANES)
    begins_ptr = verify_offsets_ptr + low
    start = first - first % _SECTOR
    while start < stop:
        at = start + lanes
        mask = (at >= first) & (at < stop)
        run = _run_of(begins_ptr, (high - low).to(tl.int32), at)
        request = low + run
        row = tl.load(req_pool_indices_ptr + request, mask=mask, other=0)
        prefix = _cached_tokens(tl.load(prefix_lens_ptr + request, mask=mask, other=0))
        begin = tl.load(begins_ptr + run, mask=mask, other=0).to(first.dtype)
        position = _window_start(prefix, window) + (at - begin)
        # Bounded by the table: 0 <= row < rows, and 0 <= position < cols, or position - 1.
        in_table = mask & _lies_in_64(row, rows)
        cells = req_to_token_ptr + (row * cols + position)
        slot = tl.load(cells, mask=in_table & _lies_in_64(position, cols), other=-1)
        prev_slot = tl.load(cells - 1, mask=in_table & _lies_in_64(position - 1, cols), other=-1)
        token = slot * 0 - 1
        if HAS_TOKENS:
            token = _read_token(row, position, request, mask, tokens)
        _store_entries(start, lanes, mask, slot, prev_slot, position, token, lut, entries, HAS_LUT, REPORTS)
        start += _LANES


@triton.jit
def _store_span(
    first, stop, requests0, before, requests, ends, lens, verify_offsets_ptr, batch, table, lut, tokens, entries,
    HAS_LUT: tl.constexpr, HAS_TOKENS: tl.constexpr, REPORTS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Write entries [first, stop), first < stop, all of a block of requests that begins with ``requests0``.

    ``lens`` [BATCH_BLOCK] are those of ``requests``, ``ends`` [BATCH_BLOCK] where their entries end, ``before`` is how
    many entries come before the block.
    """
    # Two counts below 65536 in one sum.
    counts = tl.sum((ends <= first).to(tl.int32) + ((ends < stop).to(tl.int32) << 16), 0)
    low = requests0 + (counts & 0xFFFF)
    high = requests0 + (counts >> 16) + 1
    if high - low <= _MOST_RUNS:
        begin = tl.max(tl.where(ends <= first, ends, before), 0)
        _store_long_runs(
            first, stop, low, high, begin, batch, table, lut, tokens, entries, HAS_LUT, HAS_TOKENS, REPORTS, BLOCK
        )
    else:
        # Every program stores the same offsets, and reads back what it stored itself.
        tl.store(verify_offsets_ptr + requests, (ends - lens).to(tl.int64), mask=(requests >= low) & (requests < high))
        tl.debug_barrier()
        _store_short_runs(
            first, stop, low, high, verify_offsets_ptr, batch, table, lut, tokens, entries, HAS_LUT, HAS_TOKENS, REPORTS
        )
