"""The kernels that print integers write what the encoder on the host writes, wherever the tiles are cut."""

import json

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kernels.harness import Guarded

pytestmark = pytest.mark.triton

BORDERS = [sign * (10**exponent + change) for exponent in range(19) for change in (-1, 0, 1) for sign in (1, -1)]
EXTREMES = [2**63 - 1, -(2**63), -(2**63) + 1, 2**31, 2**32, -(2**31) - 1]


def print_arrays(values: torch.Tensor, arrays: list[slice], tile: int) -> list[bytes]:
    """The text of each array behind its opening bracket, none of which may touch what is beside it."""
    from service.kernels.json_printer import cut_tiles, measure_tiles, print_tiles

    tiles = cut_tiles(arrays, values.device, tile)
    lengths = measure_tiles(values, tiles)
    guarded = Guarded(values.device)
    text = guarded.vector(int(lengths.sum()), torch.int8)
    print_tiles(values, tiles, np.cumsum(lengths) - lengths, text.view(torch.uint8))
    guarded.assert_guards_survive()
    array_bytes = np.bincount(tiles.array_of, lengths, len(arrays)).astype(int)
    stops = np.cumsum(array_bytes)
    written = text.cpu().numpy().tobytes()
    return [written[stop - length : stop] for stop, length in zip(stops, array_bytes, strict=True)]


def expected(values: torch.Tensor, array: slice) -> bytes:
    text = json.dumps(values[array].tolist(), separators=(",", ":")).encode()[1:]
    return b"" if text == b"]" else text


@pytest.mark.parametrize("tile", [1, 4, 1024])
def test_every_number_of_digits_is_written(tile: int, kernel_device: torch.device) -> None:
    values = torch.tensor(BORDERS + EXTREMES, device=kernel_device)
    whole = slice(0, len(values))
    assert print_arrays(values, [whole], tile) == [expected(values, whole)]


@given(
    lengths=st.lists(st.integers(0, 9), min_size=1, max_size=5),
    tile=st.sampled_from([1, 2, 4, 8]),
    data=st.data(),
)
@settings(max_examples=40, deadline=None)
def test_arrays_beside_each_other_are_written_apart(
    lengths: list[int], tile: int, data: st.DataObject, kernel_device: torch.device
) -> None:
    numbers = st.one_of(st.integers(-(2**63), 2**63 - 1), st.sampled_from(BORDERS + EXTREMES), st.integers(-20, 20))
    gaps = data.draw(st.lists(st.integers(0, 2), min_size=len(lengths), max_size=len(lengths)))
    arrays, at = [], 0
    for length, gap in zip(lengths, gaps, strict=True):
        arrays.append(slice(at + gap, at + gap + length))
        at += gap + length
    values = torch.tensor(data.draw(st.lists(numbers, min_size=at, max_size=at)), dtype=torch.int64)
    there = values.to(kernel_device)
    assert print_arrays(there, arrays, tile) == [expected(there, array) for array in arrays]


@pytest.mark.parametrize("elements", [1023, 1024, 1025, 2049])
def test_around_the_border_of_a_tile(elements: int, kernel_device: torch.device) -> None:
    values = torch.randint(-(2**40), 2**40, (elements,), device=kernel_device)
    whole = slice(0, elements)
    assert print_arrays(values, [whole], 1024) == [expected(values, whole)]


@pytest.mark.gpu
def test_millions_of_numbers_are_written_right(kernel_device: torch.device) -> None:
    for bits in (4, 20, 34, 63):
        values = torch.randint(-(2**bits), 2**bits - 1, (3_000_001,), device=kernel_device)
        arrays = [slice(0, 1_000_000), slice(1_000_001, 1_000_001), slice(1_000_001, 3_000_001)]
        assert print_arrays(values, arrays, 1024) == [expected(values, array) for array in arrays]
