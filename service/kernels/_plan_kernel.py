"""Device code of a whole plan: some programs write the offsets, the others share the entries. Jit bodies only."""

import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_wait

from service.kernels._batch_kernel import _read_requests
from service.kernels._entries_kernel import _store_span, _store_spans
from service.kernels._offsets_kernel import _store_offsets, _verify_total

_GRAIN = tl.constexpr(64)
"""What a program writes begins at a multiple of so many entries: whole sectors of memory."""
_SIZES = ["bs", "rows", "cols", "lut_len", "token_rows", "token_cols", "window", "token_offset"]
_SIZES += ["verify_capacity", "room", "write_offsets_len", "blocks"]
_POINTERS = ["req_pool_indices_ptr", "prefix_lens_ptr", "extend_seq_lens_ptr", "req_to_token_ptr", "lut_ptr"]
_POINTERS += ["tokens_ptr", "valid_lens_ptr", "sums_ptr", "verify_offsets_ptr", "verify_num_valid_ptr"]
_POINTERS += ["verify_enable_ptr", "write_offsets_ptr", "write_seed_slot_indices_ptr", "write_num_valid_reqs_ptr"]
_POINTERS += ["slot_ptr", "token_ptr", "position_ptr", "prev_slot_ptr", "faults_ptr"]


@triton.jit(do_not_specialize=_SIZES, do_not_specialize_on_alignment=_POINTERS)
def _plan_kernel(
    req_pool_indices_ptr,  # [bs] int64
    prefix_lens_ptr,  # [bs] int64
    extend_seq_lens_ptr,  # [bs] int64
    req_to_token_ptr,  # [rows, cols] int32
    lut_ptr,  # [lut_len] int64, read only with HAS_LUT
    tokens_ptr,  # [token_rows, token_cols] int32, read only with HAS_TOKENS
    valid_lens_ptr,  # [bs] int64, read only with HAS_TOKENS
    sums_ptr,  # [blocks, 2] int64, read only with BLOCKED
    verify_offsets_ptr,  # [bs + 1] int64
    verify_num_valid_ptr,  # [1] int32
    verify_enable_ptr,  # [1] int32
    write_offsets_ptr,  # [write_offsets_len] int64
    write_seed_slot_indices_ptr,  # [bs] int64
    write_num_valid_reqs_ptr,  # [1] int32
    slot_ptr,  # [room] int64, and the three below
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
    room: tl.int64,
    write_offsets_len: tl.int64,
    blocks: tl.int64,
    HAS_LUT: tl.constexpr,
    HAS_TOKENS: tl.constexpr,
    REPORTS: tl.constexpr,
    BLOCKED: tl.constexpr,
    WIDE: tl.constexpr,
    BATCH_BLOCK: tl.constexpr,
    BLOCK: tl.constexpr,
    WAITS: tl.constexpr,
):
    """The first programs write offsets, one a block of requests; the others write an equal share of the entries each.

    Each of the others finds its share by itself. BLOCKED: there are several blocks, and a launch before this one
    summed them up. WIDE: flat indices of entries need 64 bits. WAITS: this may begin before that launch has ended.
    """
    if WAITS:
        gdc_wait()
    batch = (req_pool_indices_ptr, prefix_lens_ptr, bs, window)
    table = (req_to_token_ptr, rows, cols)
    lut = (lut_ptr, lut_len)
    tokens = (tokens_ptr, token_rows, token_cols, valid_lens_ptr, token_offset)
    entries = (slot_ptr, token_ptr, position_ptr, prev_slot_ptr, faults_ptr)
    index_type: tl.constexpr = tl.int64 if WIDE else tl.int32
    program = tl.program_id(0).to(tl.int64)
    if program < blocks:
        outputs = (
            verify_offsets_ptr, verify_num_valid_ptr, verify_enable_ptr, write_offsets_ptr, write_num_valid_reqs_ptr
        )  # fmt: skip
        _store_offsets(
            program, blocks, batch, extend_seq_lens_ptr, table, lut, sums_ptr, outputs, write_seed_slot_indices_ptr,
            faults_ptr, verify_capacity, write_offsets_len, HAS_LUT, REPORTS, BLOCKED, BATCH_BLOCK,
        )  # fmt: skip
    else:
        requests = tl.arange(0, BATCH_BLOCK).to(tl.int64)
        if BLOCKED:
            long_total = _verify_total(sums_ptr, blocks, BATCH_BLOCK)
        else:
            _, _, long_lens = _read_requests(batch, requests)
            long_total = tl.sum(long_lens, 0)
        if (long_total <= verify_capacity) & (long_total <= room):
            # From here on sums fit the type: the launcher compared it with the room.
            total = long_total.to(index_type)
            writers = (tl.num_programs(0) - blocks).to(index_type)
            share = tl.cdiv(tl.cdiv(total, writers), _GRAIN) * _GRAIN
            first = (program - blocks).to(index_type) * share
            stop = tl.minimum(first + share, total)
            if first < stop:
                if BLOCKED:
                    _store_spans(
                        first, stop, blocks, sums_ptr, verify_offsets_ptr, batch, table, lut, tokens, entries,
                        HAS_LUT, HAS_TOKENS, REPORTS, BATCH_BLOCK, BLOCK,
                    )  # fmt: skip
                else:
                    _store_span(
                        first, stop, blocks * 0, first * 0, requests, long_lens.to(index_type), verify_offsets_ptr,
                        batch, table, lut, tokens, entries, HAS_LUT, HAS_TOKENS, REPORTS, BLOCK,
                    )  # fmt: skip
