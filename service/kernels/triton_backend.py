"""Launchers of the Triton kernels: they set the device, choose the grid and launch. They check and await nothing."""

from contextlib import AbstractContextManager, nullcontext

import torch

from service.kernels._entries_kernel import _entries_kernel
from service.kernels._offsets_kernel import _offsets_kernel
from service.kernels._scatter_kernel import _scatter_kernel
from service.kernels.operands import (
    INT32_MAX,
    INT64_MAX,
    EntryBuffers,
    OffsetBuffers,
    PlanOperands,
    ScatterOperands,
)

_LONGEST = 2**40
"""Bound on one unjudged length: above any real one, and low enough that a tile of them adds up within int64."""
_FARTHEST = 2**62
"""Where the total of unjudged lengths stays: above any capacity, and low enough that a tile can be added to it."""
_OFFSETS_BLOCK = 1024
_ENTRIES_BLOCK = 1024
_SCATTER_BLOCK = 1024
_PROGRAMS_PER_PROCESSOR = 8


def launch_plan(operands: PlanOperands, offsets: OffsetBuffers, entries: EntryBuffers | None) -> None:
    """Enqueue the offsets pass and, with ``entries``, the entries pass on the operands' device.

    On CUDA this is safe under graph capture. A slot outside the look-up table becomes -1 and is reported in
    ``offsets.faults``, as is nothing else: an index that is out of range reads nothing and yields slot -1.
    """
    with _on_device(operands.req_pool_indices.device):
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


def _launch_offsets(operands: PlanOperands, out: OffsetBuffers) -> None:
    lut = operands.full_to_swa_index_mapping
    _offsets_kernel[(1,)](
        operands.req_pool_indices,
        operands.prefix_lens,
        operands.extend_seq_lens,
        operands.req_to_token,
        operands.prefix_lens if lut is None else lut,
        out.verify_offsets,
        out.verify_num_valid,
        out.verify_enable,
        out.write_offsets,
        out.write_seed_slot_indices,
        out.write_num_valid_reqs,
        out.faults,
        operands.bs,
        operands.req_to_token.shape[0],
        operands.req_to_token.shape[1],
        0 if lut is None else lut.shape[0],
        max(operands.swa_window_size, 0),
        operands.verify_capacity,
        out.write_offsets.shape[0],
        HAS_LUT=lut is not None,
        LONGEST=_LONGEST,
        FARTHEST=_FARTHEST,
        NO_FAULT=INT64_MAX,
        INT32_MAX=INT32_MAX,
        BLOCK=_OFFSETS_BLOCK,
    )


def _launch_entries(operands: PlanOperands, offsets: OffsetBuffers, out: EntryBuffers) -> None:
    lut = operands.full_to_swa_index_mapping
    tokens = operands.req_to_verify_expected_tokens
    valid_lens = operands.req_to_verify_expected_tokens_valid_lens
    tiles = -(-out.verify_slot_indices.shape[0] // _ENTRIES_BLOCK)
    grid = min(tiles, _PROGRAMS_PER_PROCESSOR * _processors(operands.req_pool_indices.device))
    _entries_kernel[(grid,)](
        operands.req_pool_indices,
        operands.prefix_lens,
        operands.req_to_token,
        operands.prefix_lens if lut is None else lut,
        operands.req_to_token if tokens is None else tokens,
        operands.prefix_lens if tokens is None else valid_lens,
        offsets.verify_offsets,
        offsets.verify_enable,
        out.verify_slot_indices,
        out.verify_expected_tokens,
        out.verify_expected_positions,
        out.verify_prev_slot_indices,
        offsets.faults,
        operands.bs,
        operands.req_to_token.shape[0],
        operands.req_to_token.shape[1],
        0 if lut is None else lut.shape[0],
        0 if tokens is None else tokens.shape[0],
        0 if tokens is None else tokens.shape[1],
        max(operands.swa_window_size, 0),
        operands.kv_token_id_vs_position_offset,
        HAS_LUT=lut is not None,
        HAS_TOKENS=tokens is not None,
        LONGEST=_LONGEST,
        NO_FAULT=INT64_MAX,
        BLOCK=_ENTRIES_BLOCK,
    )


def _on_device(device: torch.device) -> AbstractContextManager[object]:
    return torch.cuda.device(device) if device.type == "cuda" else nullcontext()


def _processors(device: torch.device) -> int:
    return torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 1
