"""Device code of the entries pass: slot, expected token, position and predecessor of each entry. Jit bodies only."""

import triton
import triton.language as tl

from service.kernels._offsets_kernel import _window_start
from service.kernels._owner_kernel import _owner_of

_SIZES = ["bs", "rows", "cols", "lut_len", "token_rows", "token_cols", "window", "token_offset"]


@triton.jit
def _translate(slots, lut_ptr, lut_len):
    """Slots through the look-up table: negative ones stay, those outside become -1 and are reported by the caller."""
    # Bounded by the look-up table: 0 <= slot < lut_len, or nothing is read.
    translated = tl.load(lut_ptr + slots, mask=(slots >= 0) & (slots < lut_len), other=-1)
    return tl.where(slots < 0, slots, translated)


@triton.jit(
    do_not_specialize=_SIZES,
    do_not_specialize_on_alignment=["req_to_token_ptr", "lut_ptr", "tokens_ptr", "valid_lens_ptr"],
)
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
    faults_ptr,  # [2] int64
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
    LONGEST: tl.constexpr,
    NO_FAULT: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """A fixed grid strides over the tiles of entries, since only the device knows how many there are."""
    total = tl.load(verify_offsets_ptr + bs)
    if tl.load(verify_enable_ptr) == 0:
        total = total * 0
    first = tl.program_id(0).to(tl.int64) * BLOCK
    stride = tl.num_programs(0).to(tl.int64) * BLOCK
    for start in range(first, total, stride):
        entries = start + tl.arange(0, BLOCK).to(tl.int64)  # [BLOCK]
        mask = entries < total
        # The tile's first and last request bound the search of each lane; both lie in [0, bs).
        low = _owner_of(verify_offsets_ptr, start, start * 0, bs)
        high = _owner_of(verify_offsets_ptr, tl.minimum(start + BLOCK, total) - 1, low, bs)
        request = _owner_of(verify_offsets_ptr, entries, low, high + 1)

        row = tl.load(req_pool_indices_ptr + request, mask=mask, other=0)
        prefix = tl.minimum(tl.maximum(tl.load(prefix_lens_ptr + request, mask=mask, other=0), 0), LONGEST)
        within = entries - tl.load(verify_offsets_ptr + request, mask=mask, other=0)
        position = _window_start(prefix, window) + within

        # Bounded by the table: 0 <= row < rows and 0 <= position < cols, or nothing is read.
        in_row = mask & (row >= 0) & (row < rows)
        cells = req_to_token_ptr + row * cols + position
        slot = tl.load(cells, mask=in_row & (position >= 0) & (position < cols), other=-1).to(tl.int64)
        prev_slot = tl.load(cells - 1, mask=in_row & (position > 0) & (position <= cols), other=-1).to(tl.int64)
        if HAS_LUT:
            key = tl.where(slot >= lut_len, 2 * entries, tl.where(prev_slot >= lut_len, 2 * entries + 1, NO_FAULT))
            first_fault = tl.min(key, 0)
            if first_fault != NO_FAULT:
                tl.atomic_min(faults_ptr, first_fault)
            slot = _translate(slot, lut_ptr, lut_len)
            prev_slot = _translate(prev_slot, lut_ptr, lut_len)

        token = tl.full((BLOCK,), -1, tl.int64)
        if HAS_TOKENS:
            # Bounded by the token table: 0 <= row < token_rows and 0 <= at < min(valid_len, token_cols).
            at = position + token_offset
            valid_len = tl.minimum(tl.load(valid_lens_ptr + request, mask=mask, other=0), token_cols)
            known = mask & (row >= 0) & (row < token_rows) & (at >= 0) & (at < valid_len)
            token = tl.load(tokens_ptr + row * token_cols + at, mask=known, other=-1).to(tl.int64)

        tl.store(slot_ptr + entries, slot, mask=mask)
        tl.store(token_ptr + entries, token, mask=mask)
        tl.store(position_ptr + entries, position, mask=mask)
        tl.store(prev_slot_ptr + entries, prev_slot, mask=mask)
