"""Launchers of the Triton kernels: they set the device, choose the grid and launch. They check and await nothing."""

from contextlib import AbstractContextManager, nullcontext

import torch

from service.kernels._entries_kernel import _entries_kernel
from service.kernels._offsets_kernel import _block_sums_kernel, _offsets_kernel
from service.kernels._plan_kernel import _plan_kernel
from service.kernels._scatter_kernel import _scatter_kernel
from service.kernels.operands import EntryBuffers, OffsetBuffers, PlanOperands, ScatterOperands

_WHOLE_BLOCKS = (32, 256)
"""Requests that every program of a one-launch plan holds: the smallest that fits the batch is taken."""
_OFFSETS_BLOCK = 1024
"""Requests that one program of the offsets pass holds; larger batches are cut into blocks of so many."""
_OFFSETS_WARPS = 8
_ENTRIES_BLOCK = 256
_SCATTER_BLOCK = 1024
_PROGRAMS_PER_PROCESSOR = 16


def launch_plan(operands: PlanOperands, offsets: OffsetBuffers, entries: EntryBuffers | None) -> None:
    """Enqueue a plan on the operands' device, without its entries if ``entries`` is None.

    On CUDA this is safe under graph capture. A slot outside the look-up table becomes -1 and is reported in
    ``offsets.faults``, as is nothing else: an index that is out of range reads nothing and yields slot -1.
    """
    with _on_device(operands.req_pool_indices.device):
        if operands.bs <= _WHOLE_BLOCKS[-1]:
            _launch_whole(operands, offsets, entries)
            return
        _launch_offsets(operands, offsets)
        if entries is not None:
            _launch_entries(operands, offsets, entries)


def launch_scatter(operands: ScatterOperands) -> None:
    """Enqueue the scatter; segments are cut at the row's end and rows out of range are left out."""
    num_tokens = operands.flat_in.shape[0]
    bs = operands.req_pool_indices.shape[0]
    if num_tokens == 0 or bs == 0:
        return
    starts = operands.start_positions
    with _on_device(operands.flat_in.device):
        _scatter_kernel[(-(-num_tokens // _SCATTER_BLOCK),)](
            operands.flat_in,
            operands.offsets,
            operands.req_pool_indices,
            operands.offsets if starts is None else starts,
            operands.pool_out,
            bs,
            num_tokens,
            operands.pool_out.shape[0],
            operands.pool_out.shape[1],
            HAS_STARTS=starts is not None,
            BLOCK=_SCATTER_BLOCK,
        )


def _launch_whole(operands: PlanOperands, offsets: OffsetBuffers, entries: EntryBuffers | None) -> None:
    """One launch: programs that write entries, and a last one that writes the offsets."""
    writers = 0 if entries is None else _programs(entries, operands.req_pool_indices.device)
    _plan_kernel[(writers + 1,)](
        operands.req_pool_indices,
        operands.prefix_lens,
        operands.extend_seq_lens,
        *_tables(operands),
        *_offset_pointers(offsets),
        *_entry_pointers(offsets, entries),
        operands.bs,
        *_table_sizes(operands),
        max(operands.swa_window_size, 0),
        operands.kv_token_id_vs_position_offset,
        operands.verify_capacity,
        offsets.write_offsets.shape[0],
        **_flags(operands, offsets),
        BATCH_BLOCK=next(block for block in _WHOLE_BLOCKS if operands.bs <= block),
        BLOCK=_ENTRIES_BLOCK,
    )


def _launch_offsets(operands: PlanOperands, offsets: OffsetBuffers) -> None:
    """Offsets and seeds of each block of requests, after a launch for the sums of each if there are several."""
    blocks = -(-operands.bs // _OFFSETS_BLOCK)
    sums = torch.empty(2 * blocks, dtype=torch.int64, device=operands.req_pool_indices.device)
    batch = (operands.req_pool_indices, operands.prefix_lens, operands.extend_seq_lens)
    window = max(operands.swa_window_size, 0)
    if blocks > 1:
        _block_sums_kernel[(blocks,)](
            *batch, sums, operands.bs, window, BATCH_BLOCK=_OFFSETS_BLOCK, num_warps=_OFFSETS_WARPS
        )
    req_to_token, lut, _, _ = _tables(operands)
    rows, cols, lut_len, _, _ = _table_sizes(operands)
    flags = _flags(operands, offsets)
    _offsets_kernel[(blocks,)](
        *batch,
        req_to_token,
        lut,
        sums,
        *_offset_pointers(offsets),
        _faults_pointer(offsets),
        operands.bs,
        rows,
        cols,
        lut_len,
        window,
        operands.verify_capacity,
        offsets.write_offsets.shape[0],
        HAS_LUT=flags["HAS_LUT"],
        REPORTS=flags["REPORTS"],
        BATCH_BLOCK=_OFFSETS_BLOCK,
        num_warps=_OFFSETS_WARPS,
    )


def _launch_entries(operands: PlanOperands, offsets: OffsetBuffers, entries: EntryBuffers) -> None:
    _entries_kernel[(_programs(entries, operands.req_pool_indices.device),)](
        operands.req_pool_indices,
        operands.prefix_lens,
        *_tables(operands),
        offsets.verify_offsets,
        offsets.verify_enable,
        *_entry_pointers(offsets, entries),
        operands.bs,
        *_table_sizes(operands),
        max(operands.swa_window_size, 0),
        operands.kv_token_id_vs_position_offset,
        **_flags(operands, offsets),
        BLOCK=_ENTRIES_BLOCK,
    )


def _tables(operands: PlanOperands) -> tuple[torch.Tensor, ...]:
    """Table, look-up table, token table, valid lens; for an absent one a tensor of its dtype that is never read."""
    lut, tokens = operands.full_to_swa_index_mapping, operands.req_to_verify_expected_tokens
    valid_lens = operands.req_to_verify_expected_tokens_valid_lens
    return (
        operands.req_to_token,
        operands.prefix_lens if lut is None else lut,
        operands.req_to_token if tokens is None else tokens,
        operands.prefix_lens if valid_lens is None else valid_lens,
    )


def _table_sizes(operands: PlanOperands) -> tuple[int, int, int, int, int]:
    """Rows and columns of the table, length of the look-up table, rows and columns of the token table."""
    lut, tokens = operands.full_to_swa_index_mapping, operands.req_to_verify_expected_tokens
    rows, cols = operands.req_to_token.shape
    token_rows, token_cols = (0, 0) if tokens is None else tokens.shape
    return rows, cols, 0 if lut is None else lut.shape[0], token_rows, token_cols


def _offset_pointers(offsets: OffsetBuffers) -> tuple[torch.Tensor, ...]:
    return (
        offsets.verify_offsets,
        offsets.verify_num_valid,
        offsets.verify_enable,
        offsets.write_offsets,
        offsets.write_seed_slot_indices,
        offsets.write_num_valid_reqs,
    )


def _entry_pointers(offsets: OffsetBuffers, entries: EntryBuffers | None) -> tuple[torch.Tensor, ...]:
    if entries is None:
        return (*(offsets.verify_offsets,) * 4, _faults_pointer(offsets))
    return (
        entries.verify_slot_indices,
        entries.verify_expected_tokens,
        entries.verify_expected_positions,
        entries.verify_prev_slot_indices,
        _faults_pointer(offsets),
    )


def _faults_pointer(offsets: OffsetBuffers) -> torch.Tensor:
    return offsets.verify_offsets if offsets.faults is None else offsets.faults


def _flags(operands: PlanOperands, offsets: OffsetBuffers) -> dict[str, bool]:
    return {
        "HAS_LUT": operands.full_to_swa_index_mapping is not None,
        "HAS_TOKENS": operands.req_to_verify_expected_tokens is not None,
        "REPORTS": offsets.faults is not None,
    }


def _programs(entries: EntryBuffers, device: torch.device) -> int:
    """How many programs write entries: one a tile that there is room for, up to what keeps the device busy."""
    tiles = -(-entries.verify_slot_indices.shape[0] // _ENTRIES_BLOCK)
    return min(tiles, _PROGRAMS_PER_PROCESSOR * _processors(device))


def _on_device(device: torch.device) -> AbstractContextManager[object]:
    return torch.cuda.device(device) if device.type == "cuda" else nullcontext()


def _processors(device: torch.device) -> int:
    return torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 1
