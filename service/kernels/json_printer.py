"""Launches the kernels that write integers as JSON text. Knows arrays and bytes, no field and no answer."""

from collections.abc import Sequence
from typing import NamedTuple

import torch

from service.kernels._json_print_kernel import _lengths_kernel, _places_kernel, _text_kernel
from service.kernels._launcher import Constants, Launcher

TILE_ELEMENTS = 1024
MOST_ELEMENTS_READ = 3 * 2**13
"""Up to so many, numbers are sooner copied to the host and printed there."""
_PLACES_BLOCK = 4096


class PrintConstants(NamedTuple):
    """Constants of the kernels that read elements."""

    BLOCK: int


class PlacesConstants(NamedTuple):
    """Constants of ``_places_kernel``."""

    BLOCK: int = _PLACES_BLOCK


_lengths = Launcher(_lengths_kernel)
_places = Launcher(_places_kernel)
_texts = Launcher(_text_kernel)


class Printing(NamedTuple):
    """Arrays that lie in one vector, cut into tiles, and how long their text is; all tensors are on one device.

    ``spans`` [arrays, 4] and ``places`` [tiles + 1] int64 are as the kernels take them. ``array_bytes`` counts a byte
    behind each element, and is 0 for an array of none.
    """

    values: torch.Tensor
    spans: torch.Tensor
    places: torch.Tensor
    tile_elements: int
    array_bytes: list[int]


def measure_arrays(
    values: torch.Tensor, arrays: Sequence[tuple[slice, int]], tile_elements: int = TILE_ELEMENTS
) -> Printing:
    """What printing the ``arrays`` takes: where in ``values`` they lie, and the literal bytes before their text.

    Literals are all bytes of a text that are not of arrays, up to the array meant. ``values`` int64 is contiguous and
    its device the current one, ``tile_elements`` a power of two. Waits for the device.
    """
    spans, tiles, first_tiles = [], 0, [0]
    for array, literal_bytes in arrays:
        spans.append((array.start, array.stop, tiles, literal_bytes))
        tiles += -(-(array.stop - array.start) // tile_elements)
        first_tiles.append(tiles)
    device = values.device
    there = torch.tensor(spans, dtype=torch.int64).to(device)
    lengths = torch.empty(tiles, dtype=torch.int32, device=device)
    places = torch.empty(tiles + 1, dtype=torch.int64, device=device)
    _launch(_lengths, tiles, (values, there, lengths), len(spans), PrintConstants(tile_elements))
    _launch(_places, 1, (lengths, places), tiles, PlacesConstants())
    stops = places.cpu()[first_tiles]
    return Printing(values, there, places, tile_elements, stops.diff().tolist())


def print_arrays(printing: Printing, text: torch.Tensor) -> None:
    """Enqueue the writing of the arrays to ``text`` uint8, which has room for them and all literals.

    Behind each element stands a comma, behind the last of an array a closing bracket. Literals are left out.
    """
    values, spans, places, tile_elements, _ = printing
    tiles = places.shape[0] - 1
    _launch(_texts, tiles, (values, spans, places, text), spans.shape[0], PrintConstants(tile_elements))


def warm_up(device: torch.device) -> None:
    """Compile the kernels for ``device``, which must be the current one."""
    printing = measure_arrays(torch.zeros(1, dtype=torch.int64, device=device), [(slice(0, 1), 0)])
    print_arrays(printing, torch.empty(2, dtype=torch.uint8, device=device))


def _launch(
    launcher: Launcher, programs: int, pointers: tuple[torch.Tensor, ...], size: int, constants: Constants
) -> None:
    if programs == 0:
        return
    device = pointers[0].device
    variant = launcher.variant(device, constants) or launcher.compile(device, pointers, (size,), [constants])
    variant.launch(programs, pointers, (size,))
