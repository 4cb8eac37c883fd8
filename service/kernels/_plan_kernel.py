"""Device code of a whole plan. Jit bodies only."""

import triton
import triton.language as tl

from service.kernels._batch_kernel import _read_extend_lens, _read_requests, _store_offsets, _store_seeds, _store_totals
from service.kernels._blocks_kernel import _plan_block
from service.kernels._entries_kernel import _share_of, _store_span

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
    """Not BLOCKED: one program writes the offsets, the others write an equal share of the entries each, which each of
    them finds by itself. BLOCKED: there are several blocks of requests, a launch before this one summed them up, and
    equally many programs work on each block. WIDE: flat indices of entries need 64 bits. WAITS: this may begin before
    that launch has ended.
    """
    batch = (req_pool_indices_ptr, prefix_lens_ptr, bs, window)
    table = (req_to_token_ptr, rows, cols)
    lut = (lut_ptr, lut_len)
    tokens = (tokens_ptr, token_rows, token_cols, valid_lens_ptr, token_offset)
    outputs = (verify_offsets_ptr, verify_num_valid_ptr, verify_enable_ptr, write_offsets_ptr, write_num_valid_reqs_ptr)
    entries = (slot_ptr, token_ptr, position_ptr, prev_slot_ptr, faults_ptr)
    index_type: tl.constexpr = tl.int64 if WIDE else tl.int32
    program = tl.program_id(0).to(tl.int64)
    most = tl.minimum(verify_capacity, room)
    zero = program * 0
    if BLOCKED:
        _plan_block(
            program, blocks, most, batch, extend_seq_lens_ptr, table, lut, tokens, sums_ptr, outputs,
            write_seed_slot_indices_ptr, entries, verify_capacity, write_offsets_len,
            HAS_LUT, HAS_TOKENS, REPORTS, BATCH_BLOCK, BLOCK, WAITS, index_type,
        )  # fmt: skip
    else:
        requests = tl.arange(0, BATCH_BLOCK).to(tl.int64)
        row, prefix, lens = _read_requests(batch, requests)
        if program == 0:
            extend = _read_extend_lens(extend_seq_lens_ptr, requests, bs, row)
            _store_seeds(
                requests, bs, row, prefix, extend, table, lut, write_seed_slot_indices_ptr, faults_ptr, HAS_LUT, REPORTS
            )
            _store_offsets(requests, bs, lens, extend, zero, zero, outputs)
            _store_totals(
                tl.sum(lens, 0), tl.sum(extend, 0), bs, verify_capacity, write_offsets_len, outputs, BATCH_BLOCK
            )
        else:
            total = tl.sum(lens, 0)
            if total <= most:
                # From here on sums fit the type: the launcher compared it with the room.
                first, stop = _share_of(program - 1, tl.num_programs(0) - 1, total.to(index_type))
                if first < stop:
                    ends = tl.cumsum(lens.to(index_type), 0)
                    _store_span(
                        first, stop, zero, first * 0, requests, ends, lens, verify_offsets_ptr,
                        batch, table, lut, tokens, entries, HAS_LUT, HAS_TOKENS, REPORTS, BLOCK,
                    )  # fmt: skip
