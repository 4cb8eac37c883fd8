"""Owns the printing of large answers on their device: numbers become text there, which comes to the host as it is."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch

from service.kernels.host_batch import Ints
from service.kernels.json_printer import TILE_ELEMENTS, cut_tiles, measure_tiles, print_tiles
from service.runtime.plan_codec import Piece


def print_answer(pieces: Sequence[Piece], tile_elements: int = TILE_ELEMENTS) -> memoryview:
    """The text of ``pieces``, one behind the other: bytes as they are, arrays as JSON.

    The arrays, at least one, are 1-D int64 and contiguous, in one allocation on the device that is current; nothing but
    this stream uses them. The text is on the host, in pinned memory if the device is a CUDA device, which is free for
    other answers when nobody holds the view any more.
    """
    arrays = [piece for piece in pieces if isinstance(piece, torch.Tensor)]
    values = _whole_allocation(arrays[0])
    spans = [slice(array.storage_offset(), array.storage_offset() + array.numel()) for array in arrays]
    tiles = cut_tiles(spans, values.device, tile_elements)
    lengths = measure_tiles(values, tiles)
    array_bytes = np.bincount(tiles.array_of, lengths, len(arrays)).astype(np.int64)
    piece_bytes = _piece_bytes(pieces, array_bytes)
    piece_stops = np.cumsum(piece_bytes)
    is_array = np.array([isinstance(piece, torch.Tensor) for piece in pieces])
    # Of an array, the text of its tiles begins behind its opening bracket.
    array_starts = (piece_stops - piece_bytes)[is_array] + 1
    places = _places(tiles.array_of, lengths, array_starts)
    text = torch.empty(int(piece_stops[-1]), dtype=torch.uint8, device=values.device)
    print_tiles(values, tiles, places, text)
    on_cuda = values.device.type == "cuda"
    host = torch.empty(text.shape, dtype=torch.uint8, pin_memory=on_cuda)
    host.copy_(text, non_blocking=True)
    if on_cuda:
        torch.cuda.current_stream(values.device).synchronize()
    shown: npt.NDArray[np.uint8] = host.numpy()
    printed = shown.data
    for piece, stop, length in zip(pieces, piece_stops.tolist(), piece_bytes.tolist(), strict=True):
        literal = piece if isinstance(piece, bytes) else b"[" if piece.numel() else b"[]"
        printed[stop - length : stop - length + len(literal)] = literal
    return printed


def _whole_allocation(array: torch.Tensor) -> torch.Tensor:
    """The allocation of int64 that ``array`` lies in."""
    elements = array.untyped_storage().nbytes() // array.element_size()
    return array.as_strided((elements,), (1,), 0)


def _piece_bytes(pieces: Sequence[Piece], array_bytes: Ints) -> Ints:
    """[pieces] int64. An array has an opening bracket before its tiles, and a closing one if it has none."""
    lengths = iter(array_bytes.tolist())
    return np.array(
        [len(piece) if isinstance(piece, bytes) else max(next(lengths) + 1, len(b"[]")) for piece in pieces], np.int64
    )


def _places(array_of: Ints, lengths: Ints, array_starts: Ints) -> Ints:
    """[tiles] int64: where the text of each tile goes. The tiles of an array follow each other."""
    before = np.cumsum(lengths) - lengths
    first_tiles = np.searchsorted(array_of, array_of)
    places: Ints = array_starts[array_of] + before - before[first_tiles]
    return places
