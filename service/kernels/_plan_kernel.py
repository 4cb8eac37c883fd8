"""Device code of a whole plan in one launch, for batches that one program can hold. Jit bodies only."""

import triton
import triton.language as tl

from service.kernels._batch_kernel import _read_extend_lens, _read_requests, _store_seeds, _store_totals
from service.kernels._tile_kernel import MOST_RUNS, _store_mixed, _store_runs

_SIZES = ["bs", "rows", "cols", "lut_len", "token_rows", "token_cols", "window", "token_offset"]
_SIZES += ["verify_capacity", "write_offsets_len"]


@triton.jit(do_not_specialize=_SIZES, do_not_specialize_on_alignment=["req_to_token_ptr", "tokens_ptr", "lut_ptr"])
def _plan_kernel(
    req_pool_indices_ptr,  # [bs] int64
    prefix_lens_ptr,  # [bs] int64
    extend_seq_lens_ptr,  # [bs] int64
    req_to_token_ptr,  # [rows, cols] int32
    lut_ptr,  # [lut_len] int64, read only with HAS_LUT
    tokens_ptr,  # [token_rows, token_cols] int32, read only with HAS_TOKENS
    valid_lens_ptr,  # [bs] int64, read only with HAS_TOKENS
    verify_offsets_ptr,  # [bs + 1] int64
    verify_num_valid_ptr,  # [1] int32
    verify_enable_ptr,  # [1] int32
    write_offsets_ptr,  # [write_offsets_len] int64
    write_seed_slot_indices_ptr,  # [bs] int64
    write_num_valid_reqs_ptr,  # [1] int32
    slot_ptr,  # [>= total] int64, and the three below
    token_ptr,
    position_ptr,
    prev_slot_ptr,
    faults_ptr,  # [2] int64, written only with REPORTS
    bs: tl.int64,
    rows: tl.int64,
    cols: tl.int64,
    lut_len: tl.int64,
    token_rows: tl.int64,
    token_cols: tl.int64,
    window: tl.int64,
    token_offset: tl.int64,
    verify_capacity: tl.int64,
    write_offsets_len: tl.int64,
    HAS_LUT: tl.constexpr,
    HAS_TOKENS: tl.constexpr,
    REPORTS: tl.constexpr,
    BATCH_BLOCK: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """The last program writes the offsets; the others stride over the tiles, each knowing all offsets by itself."""
    batch = (req_pool_indices_ptr, prefix_lens_ptr, bs, window)
    table = (req_to_token_ptr, rows, cols)
    lut = (lut_ptr, lut_len)
    tokens = (tokens_ptr, token_rows, token_cols, valid_lens_ptr, token_offset)
    entries = (slot_ptr, token_ptr, position_ptr, prev_slot_ptr, faults_ptr)
    requests = tl.arange(0, BATCH_BLOCK).to(tl.int64)
    in_batch = requests < bs
    row, prefix, lens = _read_requests(batch, requests)
    ends = tl.cumsum(lens, 0)
    total = tl.sum(lens, 0)
    writers = tl.num_programs(0) - 1
    if tl.program_id(0) == writers:
        extend = _read_extend_lens(extend_seq_lens_ptr, requests, bs, row)
        tl.store(verify_offsets_ptr + requests, ends - lens, mask=in_batch)
        tl.store(write_offsets_ptr + requests, tl.cumsum(extend, 0) - extend, mask=in_batch)
        outputs = (
            verify_offsets_ptr,
            verify_num_valid_ptr,
            verify_enable_ptr,
            write_offsets_ptr,
            write_num_valid_reqs_ptr,
        )
        _store_totals(total, tl.sum(extend, 0), bs, verify_capacity, write_offsets_len, outputs, BLOCK)
        _store_seeds(
            requests, bs, row, prefix, extend, table, lut, write_seed_slot_indices_ptr, faults_ptr, HAS_LUT, REPORTS
        )
    elif total <= verify_capacity:
        start = tl.program_id(0).to(tl.int64) * BLOCK
        while start < total:
            start = tl.multiple_of(start, BLOCK)
            end = tl.minimum(total - start, BLOCK)
            low = tl.sum((in_batch & (ends <= start)).to(tl.int64), 0)
            high = tl.sum((in_batch & (ends < start + end)).to(tl.int64), 0) + 1
            if high - low <= MOST_RUNS:
                begin = tl.sum(tl.where(requests < low, lens, 0), 0)
                _store_runs(
                    start, end, low, high, begin, batch, table, lut, tokens, entries, HAS_LUT, HAS_TOKENS, REPORTS,
                    BLOCK,
                )  # fmt: skip
            else:
                # Every program stores the same offsets, and reads back what it stored itself.
                tl.store(verify_offsets_ptr + requests, ends - lens, mask=in_batch)
                tl.debug_barrier()
                _store_mixed(
                    start, end, low, high, verify_offsets_ptr, batch, table, lut, tokens, entries, HAS_LUT, HAS_TOKENS,
                    REPORTS, BLOCK,
                )  # fmt: skip
            start += writers.to(tl.int64) * BLOCK
