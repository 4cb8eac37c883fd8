"""Device code of batches of several blocks of requests: sums of the blocks, then the plan. Jit bodies only."""

import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

from service.kernels._batch_kernel import (
    FARTHEST,
    _read_extend_lens,
    _read_requests,
    _store_offsets,
    _store_seeds,
    _store_totals,
)
from service.kernels._entries_kernel import _share_of, _store_span

_ONE_BLOCK = tl.constexpr(2**40)
"""Unit of a number of blocks in an int64 that holds their entries, too: fewer than any memory has room for."""


@triton.jit(
    do_not_specialize=["bs", "window"],
    do_not_specialize_on_alignment=["req_pool_indices_ptr", "prefix_lens_ptr", "extend_seq_lens_ptr", "sums_ptr"],
)
def _block_sums_kernel(
    req_pool_indices_ptr,  # [bs] int64
    prefix_lens_ptr,  # [bs] int64
    extend_seq_lens_ptr,  # [bs] int64
    sums_ptr,  # [blocks, 2] int64
    bs: tl.int64,
    window: tl.int64,
    BATCH_BLOCK: tl.constexpr,
    ADMITS: tl.constexpr,
):
    """Verify entries and new tokens of one block of requests. ADMITS: the next launch may begin, and wait for them."""
    if ADMITS:
        gdc_launch_dependents()
    block = tl.program_id(0).to(tl.int64)
    requests = block * BATCH_BLOCK + tl.arange(0, BATCH_BLOCK)
    row, _, lens = _read_requests((req_pool_indices_ptr, prefix_lens_ptr, bs, window), requests)
    extend = _read_extend_lens(extend_seq_lens_ptr, requests, bs, row)
    tl.store(sums_ptr + 2 * block, tl.sum(lens, 0))
    tl.store(sums_ptr + 2 * block + 1, tl.sum(extend, 0))


@triton.jit
def _write_total(sums_ptr, blocks, BATCH_BLOCK: tl.constexpr):
    """New tokens of the first ``blocks`` blocks."""
    total = blocks * 0
    for start in range(0, blocks, BATCH_BLOCK):
        lanes = start + tl.arange(0, BATCH_BLOCK).to(tl.int64)
        total += tl.sum(tl.load(sums_ptr + 2 * lanes + 1, mask=lanes < blocks, other=0), 0)
    return total


@triton.jit
def _verify_sums(sums_ptr, block, blocks, BATCH_BLOCK: tl.constexpr):
    """Verify entries of the blocks before ``block`` and of all blocks, each at most FARTHEST, and the most of one."""
    before = blocks * 0
    total = before
    largest = before
    for start in range(0, blocks, BATCH_BLOCK):
        lanes = start + tl.arange(0, BATCH_BLOCK).to(tl.int64)
        sums = tl.load(sums_ptr + 2 * lanes, mask=lanes < blocks, other=0)
        before = tl.minimum(before + tl.sum(tl.where(lanes < block, sums, 0), 0), FARTHEST)
        total = tl.minimum(total + tl.sum(sums, 0), FARTHEST)
        largest = tl.maximum(largest, tl.max(sums, 0))
    return before, total, largest


@triton.jit
def _block_of(sums_ptr, blocks, entry, BATCH_BLOCK: tl.constexpr):
    """Block of requests that ``entry`` belongs to, and the entries before that block. The total must fit its type."""
    found = blocks * 0
    ahead = entry * 0
    for start in range(0, blocks, BATCH_BLOCK):
        lanes = start + tl.arange(0, BATCH_BLOCK).to(tl.int64)
        sums = tl.load(sums_ptr + 2 * lanes, mask=lanes < blocks, other=0)
        ends = ahead + tl.cumsum(sums.to(entry.dtype), 0)
        passed = (ends <= entry) & (lanes < blocks)
        # Two sums in one: the blocks before the one with ``entry``, and their entries.
        found += tl.sum(tl.where(passed, sums + _ONE_BLOCK, 0), 0)
        if start + BATCH_BLOCK < blocks:
            ahead += tl.sum(sums.to(entry.dtype), 0)
    return found // _ONE_BLOCK, (found % _ONE_BLOCK).to(entry.dtype)


@triton.jit
def _plan_block(
    program, blocks, most, batch, extend_seq_lens_ptr, table, lut, tokens, sums_ptr, outputs, seeds_ptr, entries,
    verify_capacity, write_offsets_len, HAS_LUT: tl.constexpr, HAS_TOKENS: tl.constexpr, REPORTS: tl.constexpr,
    BATCH_BLOCK: tl.constexpr, BLOCK: tl.constexpr, WAITS: tl.constexpr, INDEX: tl.constexpr,
):  # fmt: skip
    """What one program does of a plan of at most ``most`` entries: its part of a block of requests.

    Blocks that differ much are no fair shares of the entries: then it writes an equal share, wherever that lies.
    """
    _, _, bs, _ = batch
    verify_offsets_ptr, _, _, _, _ = outputs
    _, _, _, _, faults_ptr = entries
    parts = tl.num_programs(0) // blocks
    block = program // parts
    part = program % parts
    requests = block * BATCH_BLOCK + tl.arange(0, BATCH_BLOCK)
    row, prefix, lens = _read_requests(batch, requests)
    # A sum that does not fit its type is larger than the room, and then no entry is written.
    ends = tl.cumsum(lens.to(INDEX), 0)
    extend = lens * 0
    if part == 0:
        extend = _read_extend_lens(extend_seq_lens_ptr, requests, bs, row)
        _store_seeds(requests, bs, row, prefix, extend, table, lut, seeds_ptr, faults_ptr, HAS_LUT, REPORTS)
    if WAITS:
        gdc_wait()
    long_before, long_total, largest = _verify_sums(sums_ptr, block, blocks, BATCH_BLOCK)
    if part == 0:
        # Before the entries, lest all of this be kept until then: fewer programs would fit a processor at once.
        write_before = _write_total(sums_ptr, block, BATCH_BLOCK)
        _store_offsets(requests, bs, lens, extend, long_before, write_before, outputs)
        if block == blocks - 1:
            write_total = write_before + tl.sum(extend, 0)
            _store_totals(long_total, write_total, bs, verify_capacity, write_offsets_len, outputs, BATCH_BLOCK)
    if long_total <= most:
        # From here on sums fit the type: the launcher compared it with the room.
        total = long_total.to(INDEX)
        if largest <= long_total // blocks * 5 // 4 + BATCH_BLOCK:
            before = long_before.to(INDEX)
            first, stop = _share_of(part, parts, tl.load(sums_ptr + 2 * block).to(INDEX))
            if first < stop:
                _store_span(
                    before + first, before + stop, block * BATCH_BLOCK, before, requests, before + ends, lens,
                    verify_offsets_ptr, batch, table, lut, tokens, entries, HAS_LUT, HAS_TOKENS, REPORTS, BLOCK,
                )  # fmt: skip
        else:
            first, stop = _share_of(program, tl.num_programs(0), total)
            if first < stop:
                _store_spans(
                    first, stop, blocks, sums_ptr, verify_offsets_ptr, batch, table, lut, tokens, entries,
                    HAS_LUT, HAS_TOKENS, REPORTS, BATCH_BLOCK, BLOCK,
                )  # fmt: skip


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
                first, upto, block * BATCH_BLOCK, before, requests, before + tl.cumsum(lens, 0), lens,
                verify_offsets_ptr, batch, table, lut, tokens, entries, HAS_LUT, HAS_TOKENS, REPORTS, BLOCK,
            )  # fmt: skip
        first = upto
        before = after
        block += 1
