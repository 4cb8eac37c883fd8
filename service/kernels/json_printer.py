"""Launches the kernels that write integers as JSON text. Knows arrays and bytes, no field and no answer."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch

from service.kernels._json_print_kernel import _lengths_kernel, _text_kernel
from service.kernels._launcher import Launcher
from service.kernels.host_batch import Ints

TILE_ELEMENTS = 1024
MOST_ELEMENTS_READ = 2**15
"""Up to so many, numbers are sooner copied to the host and printed there."""


class PrintConstants(NamedTuple):
    """Constants of both kernels."""

    BLOCK: int


_lengths = Launcher(_lengths_kernel)
_texts = Launcher(_text_kernel)


class Tiles(NamedTuple):
    """Runs of elements, each of one of several arrays; both tensors and ``values`` are on one device.

    ``bounds`` [tiles, 3] int64: first element, the one after the last, the one after its array. ``array_of`` [tiles] is
    the array of each, on the host. Arrays without elements have no tile.
    """

    bounds: torch.Tensor
    array_of: Ints
    elements: int


def cut_tiles(arrays: Sequence[slice], device: torch.device, elements: int = TILE_ELEMENTS) -> Tiles:
    """Tiles of at most ``elements``, a power of two, of arrays that lie at ``arrays`` in one vector on ``device``."""
    starts, stops, array_of = [], [], []
    for number, array in enumerate(arrays):
        first = np.arange(array.start, array.stop, elements)
        starts.append(first)
        stops.append(np.full(len(first), array.stop))
        array_of.append(np.full(len(first), number))
    start, array_stop = np.concatenate(starts), np.concatenate(stops)
    bounds = np.stack((start, np.minimum(start + elements, array_stop), array_stop), axis=1)
    return Tiles(torch.from_numpy(bounds).to(device), np.concatenate(array_of), elements)


def measure_tiles(values: torch.Tensor, tiles: Tiles) -> Ints:
    """[tiles] int64 on the host: bytes of each tile's text, a byte behind each element included. Waits for the device.

    ``values`` int64 is contiguous, and the device is the current one.
    """
    lengths = torch.empty(len(tiles.array_of), dtype=torch.int64, device=values.device)
    _launch(_lengths, (values, tiles.bounds, lengths), tiles)
    return lengths.cpu().numpy()


def print_tiles(values: torch.Tensor, tiles: Tiles, places: Ints, text: torch.Tensor) -> None:
    """Enqueue the writing of each tile's text to ``text`` uint8, from its element of ``places`` [tiles] int64 on.

    Behind each element stands a comma, behind the last of an array a closing bracket.
    """
    there: torch.Tensor = torch.from_numpy(places).to(values.device)
    _launch(_texts, (values, tiles.bounds, there, text), tiles)


def warm_up(device: torch.device) -> None:
    """Compile both kernels for ``device``, which must be the current one."""
    tiles = cut_tiles([slice(0, 1)], device)
    values = torch.zeros(1, dtype=torch.int64, device=device)
    lengths = measure_tiles(values, tiles)
    print_tiles(values, tiles, np.zeros(1, np.int64), torch.empty(int(lengths[0]), dtype=torch.uint8, device=device))


def _launch(launcher: Launcher, pointers: tuple[torch.Tensor, ...], tiles: Tiles) -> None:
    if not len(tiles.array_of):
        return
    device = pointers[0].device
    constants = PrintConstants(tiles.elements)
    variant = launcher.variant(device, constants) or launcher.compile(device, pointers, (), [constants])
    variant.launch(len(tiles.array_of), pointers, ())
