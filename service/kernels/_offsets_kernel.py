"""Device code of the offsets of a large batch: sums of each block of requests, then a scan of each. Jit bodies only."""

import triton
import triton.language as tl

from service.kernels._batch_kernel import FARTHEST, _read_extend_lens, _read_requests, _store_seeds, _store_totals

_SIZES = ["bs", "rows", "cols", "lut_len", "window", "verify_capacity", "write_offsets_len"]


@triton.jit(do_not_specialize=["bs", "window"])
def _block_sums_kernel(
    req_pool_indices_ptr,  # [bs] int64
    prefix_lens_ptr,  # [bs] int64
    extend_seq_lens_ptr,  # [bs] int64
    sums_ptr,  # [blocks, 2] int64
    bs: tl.int64,
    window: tl.int64,
    BATCH_BLOCK: tl.constexpr,
):
    """Verify entries and new tokens of one block of requests."""
    block = tl.program_id(0).to(tl.int64)
    requests = block * BATCH_BLOCK + tl.arange(0, BATCH_BLOCK)
    row, _, lens = _read_requests((req_pool_indices_ptr, prefix_lens_ptr, bs, window), requests)
    extend = _read_extend_lens(extend_seq_lens_ptr, requests, bs, row)
    tl.store(sums_ptr + 2 * block, tl.sum(lens, 0))
    tl.store(sums_ptr + 2 * block + 1, tl.sum(extend, 0))


@triton.jit(do_not_specialize=_SIZES, do_not_specialize_on_alignment=["req_to_token_ptr", "lut_ptr"])
def _offsets_kernel(
    req_pool_indices_ptr,  # [bs] int64
    prefix_lens_ptr,  # [bs] int64
    extend_seq_lens_ptr,  # [bs] int64
    req_to_token_ptr,  # [rows, cols] int32
    lut_ptr,  # [lut_len] int64, read only with HAS_LUT
    sums_ptr,  # [blocks, 2] int64
    verify_offsets_ptr,  # [bs + 1] int64
    verify_num_valid_ptr,  # [1] int32
    verify_enable_ptr,  # [1] int32
    write_offsets_ptr,  # [write_offsets_len] int64
    write_seed_slot_indices_ptr,  # [bs] int64
    write_num_valid_reqs_ptr,  # [1] int32
    faults_ptr,  # [2] int64, written only with REPORTS
    bs: tl.int64,
    rows: tl.int64,
    cols: tl.int64,
    lut_len: tl.int64,
    window: tl.int64,
    verify_capacity: tl.int64,
    write_offsets_len: tl.int64,
    HAS_LUT: tl.constexpr,
    REPORTS: tl.constexpr,
    BATCH_BLOCK: tl.constexpr,
):
    """Offsets and seeds of one block of requests, from the sums of the blocks before it."""
    block = tl.program_id(0).to(tl.int64)
    verify_before = block * 0
    write_before = block * 0
    for first in range(0, block, BATCH_BLOCK):
        blocks = first + tl.arange(0, BATCH_BLOCK).to(tl.int64)
        verify_sum = tl.sum(tl.load(sums_ptr + 2 * blocks, mask=blocks < block, other=0), 0)
        verify_before = tl.minimum(verify_before + verify_sum, FARTHEST)
        write_before += tl.sum(tl.load(sums_ptr + 2 * blocks + 1, mask=blocks < block, other=0), 0)

    requests = block * BATCH_BLOCK + tl.arange(0, BATCH_BLOCK)
    in_batch = requests < bs
    row, prefix, lens = _read_requests((req_pool_indices_ptr, prefix_lens_ptr, bs, window), requests)
    extend = _read_extend_lens(extend_seq_lens_ptr, requests, bs, row)
    tl.store(verify_offsets_ptr + requests, verify_before + tl.cumsum(lens, 0) - lens, mask=in_batch)
    tl.store(write_offsets_ptr + requests, write_before + tl.cumsum(extend, 0) - extend, mask=in_batch)
    _store_seeds(
        requests,
        bs,
        row,
        prefix,
        extend,
        (req_to_token_ptr, rows, cols),
        (lut_ptr, lut_len),
        write_seed_slot_indices_ptr,
        faults_ptr,
        HAS_LUT,
        REPORTS,
    )
    if tl.program_id(0) == tl.num_programs(0) - 1:
        outputs = (
            verify_offsets_ptr,
            verify_num_valid_ptr,
            verify_enable_ptr,
            write_offsets_ptr,
            write_num_valid_reqs_ptr,
        )
        verify_total = tl.minimum(verify_before + tl.sum(lens, 0), FARTHEST)
        write_total = write_before + tl.sum(extend, 0)
        _store_totals(verify_total, write_total, bs, verify_capacity, write_offsets_len, outputs, BATCH_BLOCK)
