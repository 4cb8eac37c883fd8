"""Device code of the scatter: ragged rows into a table. Jit bodies only."""

import triton
import triton.language as tl

from service.kernels._batch_kernel import _owner_of

_SIZES = ["bs", "num_tokens", "rows", "cols"]
_POINTERS = ["flat_in_ptr", "offsets_ptr", "req_pool_indices_ptr", "start_positions_ptr", "pool_out_ptr"]


@triton.jit(do_not_specialize=_SIZES, do_not_specialize_on_alignment=_POINTERS)
def _scatter_kernel(
    flat_in_ptr,  # [num_tokens] int64
    offsets_ptr,  # [bs + 1] int64
    req_pool_indices_ptr,  # [bs] int64
    start_positions_ptr,  # [bs] int64, read only with HAS_STARTS
    pool_out_ptr,  # [rows, cols] int32
    bs: tl.int64,
    num_tokens: tl.int64,
    rows: tl.int64,
    cols: tl.int64,
    HAS_STARTS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """One tile of flat tokens a program: work follows the tokens, however unequal the rows are."""
    start = tl.program_id(0).to(tl.int64) * BLOCK
    flat = start + tl.arange(0, BLOCK).to(tl.int64)  # [BLOCK]
    mask = flat < num_tokens
    low = _owner_of(offsets_ptr, start, start * 0, bs)
    high = _owner_of(offsets_ptr, tl.minimum(start + BLOCK, num_tokens) - 1, low, bs)
    request = _owner_of(offsets_ptr, flat, low, high + 1)

    row = tl.load(req_pool_indices_ptr + request, mask=mask, other=0)
    begin = tl.load(offsets_ptr + request, mask=mask, other=0)
    end = tl.load(offsets_ptr + request + 1, mask=mask, other=0)
    column = flat - begin
    if HAS_STARTS:
        column += tl.load(start_positions_ptr + request, mask=mask, other=0)
    # Bounded by the table: 0 <= row < rows and 0 <= column < cols, or nothing is written.
    writable = mask & (begin <= flat) & (flat < end) & (row >= 0) & (row < rows) & (column >= 0) & (column < cols)
    token = tl.load(flat_in_ptr + flat, mask=writable, other=0)
    tl.store(pool_out_ptr + row * cols + column, token.to(tl.int32), mask=writable)
