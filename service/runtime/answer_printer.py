"""Owns the printing of large answers on their device: numbers become text there, which comes to the host as it is."""

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import torch

from service.kernels.json_printer import TILE_ELEMENTS, measure_arrays, print_arrays
from service.runtime.plan_codec import Piece


def print_answer(pieces: Sequence[Piece], tile_elements: int = TILE_ELEMENTS) -> memoryview:
    """The text of ``pieces``, one behind the other: bytes as they are, arrays as JSON.

    The arrays, at least one, are 1-D int64 and contiguous, in one allocation on the device that is current; nothing but
    this stream uses them. The text is on the host, in pinned memory if the device is a CUDA device, which is free for
    other answers when nobody holds the view any more.
    """
    literals = [_literal(piece) for piece in pieces]
    literal_bytes = list(accumulate(map(len, literals)))
    arrays = [
        (slice(piece.storage_offset(), piece.storage_offset() + piece.numel()), before)
        for piece, before in zip(pieces, literal_bytes, strict=True)
        if isinstance(piece, torch.Tensor)
    ]
    values = _whole_allocation(next(piece for piece in pieces if isinstance(piece, torch.Tensor)))
    printing = measure_arrays(values, arrays, tile_elements)
    text = torch.empty(literal_bytes[-1] + sum(printing.array_bytes), dtype=torch.uint8, device=values.device)
    print_arrays(printing, text)
    host = torch.empty(text.shape, dtype=torch.uint8, pin_memory=values.device.type == "cuda")
    host.copy_(text, non_blocking=True)
    arrived: Any = torch.get_device_module(values.device).Event()
    arrived.record()
    arrived.synchronize()
    printed: memoryview = host.numpy().data
    array_bytes = iter(printing.array_bytes)
    at = 0
    for piece, literal in zip(pieces, literals, strict=True):
        printed[at : at + len(literal)] = literal
        at += len(literal) + (next(array_bytes) if isinstance(piece, torch.Tensor) else 0)
    return printed


def _literal(piece: Piece) -> bytes:
    """What the host writes of a piece: all of it, or the bracket before an array, whose text has the closing one."""
    return piece if isinstance(piece, bytes) else b"[" if piece.numel() else b"[]"


def _whole_allocation(array: torch.Tensor) -> torch.Tensor:
    """The allocation of int64 that ``array`` lies in."""
    elements = array.untyped_storage().nbytes() // array.element_size()
    return array.as_strided((elements,), (1,), 0)
