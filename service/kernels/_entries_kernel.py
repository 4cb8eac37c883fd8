"""Device code of the entries of a large batch, from offsets that an earlier launch wrote. Jit bodies only."""

import triton
import triton.language as tl

from service.kernels._batch_kernel import _owner_of
from service.kernels._tile_kernel import MOST_RUNS, _store_mixed, _store_runs

_SIZES = ["bs", "rows", "cols", "lut_len", "token_rows", "token_cols", "window", "token_offset"]


@triton.jit(do_not_specialize=_SIZES, do_not_specialize_on_alignment=["req_to_token_ptr", "tokens_ptr", "lut_ptr"])
def _entries_kernel(
    req_pool_indices_ptr,  # [bs] int64
    prefix_lens_ptr,  # [bs] int64
    req_to_token_ptr,  # [rows, cols] int32
    lut_ptr,  # [lut_len] int64, read only with HAS_LUT
    tokens_ptr,  # [token_rows, token_cols] int32, read only with HAS_TOKENS
    valid_lens_ptr,  # [bs] int64, read only with HAS_TOKENS
    verify_offsets_ptr,  # [bs + 1] int64
    verify_enable_ptr,  # [1] int32
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
    HAS_LUT: tl.constexpr,
    HAS_TOKENS: tl.constexpr,
    REPORTS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """A fixed grid strides over the tiles of entries, since only the device knows how many there are."""
    batch = (req_pool_indices_ptr, prefix_lens_ptr, bs, window)
    table = (req_to_token_ptr, rows, cols)
    lut = (lut_ptr, lut_len)
    tokens = (tokens_ptr, token_rows, token_cols, valid_lens_ptr, token_offset)
    entries = (slot_ptr, token_ptr, position_ptr, prev_slot_ptr, faults_ptr)
    total = tl.load(verify_offsets_ptr + bs)
    if tl.load(verify_enable_ptr) == 0:
        total = total * 0
    start = tl.program_id(0).to(tl.int64) * BLOCK
    while start < total:
        start = tl.multiple_of(start, BLOCK)
        end = tl.minimum(total - start, BLOCK)
        low = _owner_of(verify_offsets_ptr, start, start * 0, bs)
        near = tl.minimum(low + MOST_RUNS, bs)
        if tl.load(verify_offsets_ptr + near) >= start + end:
            high = _owner_of(verify_offsets_ptr, start + end - 1, low, near) + 1
            begin = tl.load(verify_offsets_ptr + low)
            _store_runs(
                start, end, low, high, begin, batch, table, lut, tokens, entries, HAS_LUT, HAS_TOKENS, REPORTS, BLOCK
            )  # fmt: skip
        else:
            _store_mixed(
                start, end, low, bs, verify_offsets_ptr, batch, table, lut, tokens, entries, HAS_LUT, HAS_TOKENS,
                REPORTS, BLOCK,
            )  # fmt: skip
        start += tl.num_programs(0).to(tl.int64) * BLOCK
