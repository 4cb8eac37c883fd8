"""Device functions that write a span of verify entries, found among the requests of a block. Jit bodies only."""

import triton
import triton.language as tl

from service.kernels._batch_kernel import _cached_tokens, _read_request, _read_requests, _window_start
from service.kernels._offsets_kernel import _block_of
from service.kernels._tile_kernel import _store_rows

_MOST_RUNS = tl.constexpr(6)
"""Spans of at most so many requests are written one request after the other, those of more several at a time."""
_SHORT_STEP = tl.constexpr(8)
"""Entries of each request that are written at once where several requests are."""
_SHORT_RUNS = tl.constexpr(16)
"""Requests that are written at once there."""
_SECTOR = tl.constexpr(16)
"""Entries between the borders of memory that the lanes of a long run keep to: 128 bytes of an int64 vector."""


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
def _store_short_runs(
    first, stop, low, high, verify_offsets_ptr, batch, table, lut, tokens, entries, HAS_LUT: tl.constexpr,
    HAS_TOKENS: tl.constexpr, REPORTS: tl.constexpr,
):  # fmt: skip
    """Write entries [first, stop), which belong to requests [low, high), a few of several requests at a time."""
    req_pool_indices_ptr, prefix_lens_ptr, _, window = batch
    lanes = tl.arange(0, _SHORT_STEP)[None, :]
    request = low
    while request < high:
        owners = request + tl.arange(0, _SHORT_RUNS).to(tl.int64)[:, None]
        mask = owners < high
        row = tl.load(req_pool_indices_ptr + owners, mask=mask, other=0)
        prefix = _cached_tokens(tl.load(prefix_lens_ptr + owners, mask=mask, other=0))
        begin = tl.load(verify_offsets_ptr + owners, mask=mask, other=0).to(first.dtype)
        first_position = _window_start(prefix, window)
        end = begin + tl.where(row != 0, prefix - first_position, 0).to(first.dtype)
        at = tl.maximum(begin, first)
        count = tl.maximum(tl.minimum(end, stop) - at, 0).to(tl.int32)
        longest = tl.max(count)
        _store_rows(
            at, count, first_position + (at - begin), owners, row, longest * 0, longest, lanes, table, lut, tokens,
            entries, HAS_LUT, HAS_TOKENS, REPORTS, _SHORT_STEP,
        )  # fmt: skip
        request += _SHORT_RUNS


@triton.jit
def _store_span(
    first, stop, requests0, before, requests, lens, verify_offsets_ptr, batch, table, lut, tokens, entries,
    HAS_LUT: tl.constexpr, HAS_TOKENS: tl.constexpr, REPORTS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Write entries [first, stop), first < stop, all of a block of requests that begins with ``requests0``.

    ``lens`` [BATCH_BLOCK] are those of ``requests``, ``before`` is how many entries come before the block.
    """
    ends = before + tl.cumsum(lens, 0)
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


@triton.jit
def _store_spans(
    first, stop, blocks, sums_ptr, verify_offsets_ptr, batch, table, lut, tokens, entries, HAS_LUT: tl.constexpr,
    HAS_TOKENS: tl.constexpr, REPORTS: tl.constexpr, BATCH_BLOCK: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Write entries [first, stop), first < stop, of requests in any number of blocks."""
    block, before = _block_of(sums_ptr, blocks, first, BATCH_BLOCK)
    # Bounded by the blocks too, lest a batch that changes between the two launches keep this from ending.
    while (first < stop) & (block < blocks):
        requests = block * BATCH_BLOCK + tl.arange(0, BATCH_BLOCK)
        _, _, long_lens = _read_requests(batch, requests)
        lens = long_lens.to(first.dtype)
        after = before + tl.sum(lens, 0)
        upto = tl.minimum(after, stop)
        if first < upto:
            _store_span(
                first, upto, block * BATCH_BLOCK, before, requests, lens, verify_offsets_ptr, batch, table, lut,
                tokens, entries, HAS_LUT, HAS_TOKENS, REPORTS, BLOCK,
            )  # fmt: skip
        first = upto
        before = after
        block += 1
