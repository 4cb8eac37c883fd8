"""Launchers of the Triton kernels: they set the device, choose the grid and launch. They check and await nothing."""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import torch

from service.kernels._blocks_kernel import _block_sums_kernel
from service.kernels._launcher import Launcher, Variant
from service.kernels._plan_kernel import _plan_kernel
from service.kernels._scatter_kernel import _scatter_kernel
from service.kernels.operands import EntryBuffers, OffsetBuffers, PlanOperands, ScatterOperands

_ENTRIES_BLOCK = 512
"""Entries of one request that a program writes at once."""
_MOST_NARROW_ROOM = 2**30
"""Plans with room for so many entries index them with 32 bits, which is faster."""
_SCATTER_BLOCK = 1024


class PlanConstants(NamedTuple):
    """Constants of ``_plan_kernel``."""

    HAS_LUT: bool
    HAS_TOKENS: bool
    REPORTS: bool
    BLOCKED: bool
    WIDE: bool
    BATCH_BLOCK: int
    BLOCK: int = _ENTRIES_BLOCK
    WAITS: bool = False


class SumsConstants(NamedTuple):
    """Constants of ``_block_sums_kernel``."""

    BATCH_BLOCK: int
    ADMITS: bool = False


class ScatterConstants(NamedTuple):
    """Constants of ``_scatter_kernel``."""

    HAS_STARTS: bool
    BLOCK: int = _SCATTER_BLOCK


@dataclass(frozen=True, slots=True)
class _Shape:
    """A way to plan batches: requests in a block, how many programs write entries at most, and what it can take.

    Not blocked: the batch is one block, and one launch plans it. Blocked: a launch before it sums the blocks up.
    """

    batch_block: int
    writers_per_processor: int
    blocked: bool = False
    wide: bool = False


_WHOLE_SHAPES = (_Shape(32, 8), _Shape(256, 8), _Shape(1024, 4))
"""For batches of one block, smallest first: the more requests a block has, the longer a program looks for its own."""
_BLOCKED_SHAPE = _Shape(256, 8, blocked=True)
_WIDE_SHAPE = _Shape(256, 8, blocked=True, wide=True)
_SHAPES = (*_WHOLE_SHAPES, _BLOCKED_SHAPE, _WIDE_SHAPE)

_plans = Launcher(_plan_kernel)
_sums = Launcher(_block_sums_kernel)
_scatters = Launcher(_scatter_kernel)


def launch_plan(operands: PlanOperands, offsets: OffsetBuffers, entries: EntryBuffers | None) -> None:
    """Enqueue a plan on the operands' device, without its entries if ``entries`` is None.

    The first plan on a device with these optional inputs compiles what any plan with them needs, whatever its sizes
    and however its tensors lie in memory; from then on this only launches, also while a CUDA graph is captured.
    A slot outside the look-up table becomes -1 and is reported in ``offsets.faults``, as is nothing else: an index
    that is out of range reads nothing and yields slot -1.
    """
    device = operands.req_pool_indices.device
    room = 0 if entries is None else entries.verify_slot_indices.shape[0]
    shape = _shape_for(operands.bs, room)
    blocks = max(-(-operands.bs // shape.batch_block), 1)
    programs = _programs(room, device, shape, blocks)
    constants = _constants(operands, offsets, shape)
    with _on_device(device):
        variant = _plans.variant(device, constants) or _compile(operands, offsets, shape)
        sums = _launch_sums(operands, blocks) if shape.blocked else operands.prefix_lens
        variant.launch(
            programs,
            _pointers(operands, offsets, entries, sums),
            _sizes(operands, offsets, room, blocks),
        )


def launch_scatter(operands: ScatterOperands) -> None:
    """Enqueue the scatter; segments are cut at the row's end and rows out of range are left out."""
    num_tokens = operands.flat_in.shape[0]
    bs = operands.req_pool_indices.shape[0]
    if num_tokens == 0 or bs == 0:
        return
    starts = operands.start_positions
    device = operands.flat_in.device
    pointers = (
        operands.flat_in,
        operands.offsets,
        operands.req_pool_indices,
        operands.offsets if starts is None else starts,
        operands.pool_out,
    )
    sizes = (bs, num_tokens, *operands.pool_out.shape)
    constants = ScatterConstants(HAS_STARTS=starts is not None)
    with _on_device(device):
        variant = _scatters.variant(device, constants) or _scatters.compile(device, pointers, sizes, [constants])
        variant.launch(-(-num_tokens // _SCATTER_BLOCK), pointers, sizes)


def _shape_for(bs: int, room: int) -> _Shape:
    if room > _MOST_NARROW_ROOM:
        return _WIDE_SHAPE
    for shape in _WHOLE_SHAPES:
        if bs <= shape.batch_block:
            return shape
    return _BLOCKED_SHAPE


def _constants(operands: PlanOperands, offsets: OffsetBuffers, shape: _Shape) -> PlanConstants:
    return PlanConstants(
        operands.full_to_swa_index_mapping is not None,
        operands.req_to_verify_expected_tokens is not None,
        offsets.faults is not None,
        shape.blocked,
        shape.wide,
        shape.batch_block,
        WAITS=shape.blocked and _can_overlap(operands.req_pool_indices.device),
    )


def _sums_constants(device: torch.device) -> SumsConstants:
    return SumsConstants(_BLOCKED_SHAPE.batch_block, _can_overlap(device))


def _compile(operands: PlanOperands, offsets: OffsetBuffers, wanted: _Shape) -> Variant:
    """The variant for a shape, after all variants with the same optional inputs are compiled."""
    device = operands.req_pool_indices.device
    shapes = [wanted, *(shape for shape in _SHAPES if shape != wanted)]
    if _sums.variant(device, _sums_constants(device)) is None:
        vectors = (operands.req_pool_indices, operands.prefix_lens, operands.extend_seq_lens, operands.prefix_lens)
        _sums.compile(device, vectors, (1, 0), [_sums_constants(device)])
    return _plans.compile(
        device,
        _pointers(operands, offsets, None, operands.prefix_lens),
        _sizes(operands, offsets, 0, 1),
        [_constants(operands, offsets, shape) for shape in shapes],
    )


def _launch_sums(operands: PlanOperands, blocks: int) -> torch.Tensor:
    """[2 * blocks] int64, filled by a launch of its own: verify entries and new tokens of each block of requests."""
    device = operands.req_pool_indices.device
    sums = torch.empty(2 * blocks, dtype=torch.int64, device=device)
    vectors = (operands.req_pool_indices, operands.prefix_lens, operands.extend_seq_lens, sums)
    sizes = (operands.bs, max(operands.swa_window_size, 0))
    constants = _sums_constants(device)
    variant = _sums.variant(device, constants) or _sums.compile(device, vectors, sizes, [constants])
    variant.launch(blocks, vectors, sizes)
    return sums


def _pointers(
    operands: PlanOperands, offsets: OffsetBuffers, entries: EntryBuffers | None, sums: torch.Tensor
) -> tuple[torch.Tensor, ...]:
    """All that is read and written; for what is absent a tensor of its dtype that is never touched."""
    lut, tokens = operands.full_to_swa_index_mapping, operands.req_to_verify_expected_tokens
    valid_lens = operands.req_to_verify_expected_tokens_valid_lens
    never = operands.prefix_lens
    return (
        operands.req_pool_indices,
        operands.prefix_lens,
        operands.extend_seq_lens,
        operands.req_to_token,
        never if lut is None else lut,
        operands.req_to_token if tokens is None else tokens,
        never if valid_lens is None else valid_lens,
        sums,
        offsets.verify_offsets,
        offsets.verify_num_valid,
        offsets.verify_enable,
        offsets.write_offsets,
        offsets.write_seed_slot_indices,
        offsets.write_num_valid_reqs,
        never if entries is None else entries.verify_slot_indices,
        never if entries is None else entries.verify_expected_tokens,
        never if entries is None else entries.verify_expected_positions,
        never if entries is None else entries.verify_prev_slot_indices,
        never if offsets.faults is None else offsets.faults,
    )


def _sizes(operands: PlanOperands, offsets: OffsetBuffers, room: int, blocks: int) -> tuple[int, ...]:
    lut, tokens = operands.full_to_swa_index_mapping, operands.req_to_verify_expected_tokens
    return (
        operands.bs,
        *operands.req_to_token.shape,
        0 if lut is None else lut.shape[0],
        *((0, 0) if tokens is None else tokens.shape),
        max(operands.swa_window_size, 0),
        operands.kv_token_id_vs_position_offset,
        operands.verify_capacity,
        room,
        offsets.write_offsets.shape[0],
        blocks,
    )


def _programs(room: int, device: torch.device, shape: _Shape, blocks: int) -> int:
    """Whole blocks have a program for the offsets and writers, others as many of them for each block as for any."""
    writers = _writers(room, device, shape)
    return blocks * max(writers // blocks, 1) if shape.blocked else 1 + writers


def _writers(room: int, device: torch.device, shape: _Shape) -> int:
    """How many programs share the entries: enough to keep the device busy, few enough to have something to write.

    At least 128 entries each, and at least 512 once there are two programs for every processor.
    """
    processors = _processors(device)
    wanted = max(-(-room // 512), min(-(-room // 128), 2 * processors))
    return min(wanted, shape.writers_per_processor * processors)


def _on_device(device: torch.device) -> AbstractContextManager[object]:
    elsewhere = device.type == "cuda" and torch.cuda.current_device() != device.index
    return torch.cuda.device(device) if elsewhere else nullcontext()


@cache
def _processors(device: torch.device) -> int:
    return torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 1


@cache
def _can_overlap(device: torch.device) -> bool:
    """Whether a kernel on the device can begin before the one ahead of it has ended, and wait for it itself."""
    is_cuda = device.type == "cuda" and torch.version.hip is None
    return is_cuda and torch.cuda.get_device_capability(device) >= (9, 0)
