"""Device code of offsets: sums of blocks of requests, and one block's offsets and seeds. Jit bodies only."""

import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents

from service.kernels._batch_kernel import FARTHEST, _read_extend_lens, _read_requests, _store_seeds, _store_totals

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
def _verify_total(sums_ptr, blocks, BATCH_BLOCK: tl.constexpr):
    """Verify entries of the first ``blocks`` blocks, at most FARTHEST."""
    total = blocks * 0
    for start in range(0, blocks, BATCH_BLOCK):
        lanes = start + tl.arange(0, BATCH_BLOCK).to(tl.int64)
        total = tl.minimum(total + tl.sum(tl.load(sums_ptr + 2 * lanes, mask=lanes < blocks, other=0), 0), FARTHEST)
    return total


@triton.jit
def _write_total(sums_ptr, blocks, BATCH_BLOCK: tl.constexpr):
    """New tokens of the first ``blocks`` blocks."""
    total = blocks * 0
    for start in range(0, blocks, BATCH_BLOCK):
        lanes = start + tl.arange(0, BATCH_BLOCK).to(tl.int64)
        total += tl.sum(tl.load(sums_ptr + 2 * lanes + 1, mask=lanes < blocks, other=0), 0)
    return total


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
def _store_offsets(
    block,
    blocks,
    batch,
    extend_seq_lens_ptr,
    table,
    lut,
    sums_ptr,
    outputs,
    seeds_ptr,
    faults_ptr,
    verify_capacity,
    write_offsets_len,
    HAS_LUT: tl.constexpr,
    REPORTS: tl.constexpr,
    BLOCKED: tl.constexpr,
    BATCH_BLOCK: tl.constexpr,
):
    """Store offsets and seeds of one block of requests, and what there is one of with the last block."""
    _, _, bs, _ = batch
    verify_offsets_ptr, _, _, write_offsets_ptr, _ = outputs
    requests = block * BATCH_BLOCK + tl.arange(0, BATCH_BLOCK)
    in_batch = requests < bs
    row, prefix, lens = _read_requests(batch, requests)
    extend = _read_extend_lens(extend_seq_lens_ptr, requests, bs, row)
    verify_before = block * 0
    write_before = block * 0
    if BLOCKED:
        verify_before = _verify_total(sums_ptr, block, BATCH_BLOCK)
        write_before = _write_total(sums_ptr, block, BATCH_BLOCK)
    _store_seeds(requests, bs, row, prefix, extend, table, lut, seeds_ptr, faults_ptr, HAS_LUT, REPORTS)
    tl.store(verify_offsets_ptr + requests, verify_before + tl.cumsum(lens, 0) - lens, mask=in_batch)
    tl.store(write_offsets_ptr + requests, write_before + tl.cumsum(extend, 0) - extend, mask=in_batch)
    if block == blocks - 1:
        verify_total = tl.minimum(verify_before + tl.sum(lens, 0), FARTHEST)
        write_total = write_before + tl.sum(extend, 0)
        _store_totals(verify_total, write_total, bs, verify_capacity, write_offsets_len, outputs, BATCH_BLOCK)
