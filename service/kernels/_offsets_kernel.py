"""Device code of the offsets pass: lens, exclusive prefix sums, totals, overflow flag and seeds. Jit bodies only."""

import triton
import triton.language as tl

_SIZES = ["bs", "rows", "cols", "lut_len", "window", "verify_capacity", "write_offsets_len"]


@triton.jit
def _window_start(lens, window):
    """First verified position: max(0, lens - window) for a window above 0, else 0."""
    return tl.where(window > 0, tl.maximum(lens - window, 0), 0)


@triton.jit(do_not_specialize=_SIZES, do_not_specialize_on_alignment=["req_to_token_ptr"])
def _offsets_kernel(
    req_pool_indices_ptr,  # [bs] int64
    prefix_lens_ptr,  # [bs] int64
    extend_seq_lens_ptr,  # [bs] int64
    req_to_token_ptr,  # [rows, cols] int32
    lut_ptr,  # [lut_len] int64, read only with HAS_LUT
    verify_offsets_ptr,  # [bs + 1] int64
    verify_num_valid_ptr,  # [1] int32
    verify_enable_ptr,  # [1] int32
    write_offsets_ptr,  # [write_offsets_len] int64
    write_seed_slot_indices_ptr,  # [bs] int64
    write_num_valid_reqs_ptr,  # [1] int32
    faults_ptr,  # [2] int64
    bs: tl.int64,
    rows: tl.int64,
    cols: tl.int64,
    lut_len: tl.int64,
    window: tl.int64,
    verify_capacity: tl.int64,
    write_offsets_len: tl.int64,
    HAS_LUT: tl.constexpr,
    LONGEST: tl.constexpr,
    FARTHEST: tl.constexpr,
    NO_FAULT: tl.constexpr,
    INT32_MAX: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """One program walks the batch tile by tile and carries both totals, so any bs works."""
    verify_total = tl.zeros((), tl.int64)
    write_total = tl.zeros((), tl.int64)
    seed_fault = tl.zeros((), tl.int64) + NO_FAULT
    zero = tl.zeros((), tl.int64)
    for start in range(zero, bs, BLOCK):
        lanes = start + tl.arange(0, BLOCK).to(tl.int64)  # [BLOCK]
        in_batch = lanes < bs
        row = tl.load(req_pool_indices_ptr + lanes, mask=in_batch, other=0)
        prefix = tl.load(prefix_lens_ptr + lanes, mask=in_batch, other=0)
        extend = tl.load(extend_seq_lens_ptr + lanes, mask=in_batch, other=0)
        active = in_batch & (row != 0)
        # LONGEST and FARTHEST bound what unjudged lengths can add up to; no real length or total comes near them.
        prefix = tl.where(active, tl.minimum(tl.maximum(prefix, 0), LONGEST), 0)
        extend = tl.where(active, tl.maximum(extend, 0), 0)

        verify_lens = prefix - _window_start(prefix, window)
        tl.store(verify_offsets_ptr + lanes, verify_total + tl.cumsum(verify_lens, 0) - verify_lens, mask=in_batch)
        verify_total = tl.minimum(verify_total + tl.sum(verify_lens, 0), FARTHEST)
        tl.store(write_offsets_ptr + lanes, write_total + tl.cumsum(extend, 0) - extend, mask=in_batch)
        write_total += tl.sum(extend, 0)

        # Bounded by the table: 0 <= row < rows and 0 <= prefix - 1 < cols, or nothing is read.
        has_seed = active & (extend > 0) & (prefix > 0)
        readable = has_seed & (row >= 0) & (row < rows) & (prefix <= cols)
        seed = tl.load(req_to_token_ptr + row * cols + prefix - 1, mask=readable, other=-1).to(tl.int64)
        if HAS_LUT:
            # Bounded by the look-up table: 0 <= seed < lut_len, or nothing is read.
            outside = seed >= lut_len
            seed_fault = tl.minimum(seed_fault, tl.min(tl.where(outside, lanes, NO_FAULT), 0))
            translated = tl.load(lut_ptr + seed, mask=(seed >= 0) & (seed < lut_len), other=-1)
            seed = tl.where(seed < 0, seed, translated)
        tl.store(write_seed_slot_indices_ptr + lanes, seed, mask=in_batch)

    tl.store(verify_offsets_ptr + bs, verify_total)
    tl.store(write_offsets_ptr + bs, write_total)
    for start in range(bs + 1, write_offsets_len, BLOCK):
        tail = start + tl.arange(0, BLOCK).to(tl.int64)
        tl.store(write_offsets_ptr + tail, tl.zeros((BLOCK,), tl.int64), mask=tail < write_offsets_len)

    num_valid = tl.minimum(tl.minimum(verify_total, verify_capacity), INT32_MAX)
    tl.store(verify_num_valid_ptr, num_valid.to(tl.int32))
    tl.store(verify_enable_ptr, (verify_total <= verify_capacity).to(tl.int32))
    tl.store(write_num_valid_reqs_ptr, bs.to(tl.int32))
    tl.store(faults_ptr, zero + NO_FAULT)
    tl.store(faults_ptr + 1, seed_fault)
