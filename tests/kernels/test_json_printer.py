"""The kernels print any int64 as Python does, wherever tiles end, and write nothing else."""

import json
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kernels.harness import POISON, Guarded

pytestmark = pytest.mark.triton

HIGHEST, LOWEST = 2**63 - 1, -(2**63)
POWERS = [sign * 10**digits + step for digits in range(19) for sign in (1, -1) for step in (-1, 0, 1)]
EXTREMES = [HIGHEST, HIGHEST - 1, LOWEST, LOWEST + 1, 2**31, -(2**31), 2**32, 2**53 + 1, *POWERS]
NUMBERS = st.integers(LOWEST, HIGHEST) | st.sampled_from(EXTREMES) | st.integers(-11, 101)
LITERAL = b"#"


def printed(
    arrays: Sequence[Sequence[int]], device: torch.device, tile_elements: int = 4, literal_bytes: int = 0
) -> list[bytes]:
    """The text of each array, after so many bytes before the first of them and as many between two.

    They are next to each other in one vector, the last first. Nothing around the texts may be written to.
    """
    from service.kernels import json_printer

    values = torch.tensor([number for array in reversed(arrays) for number in array], dtype=torch.int64).to(device)
    placed, stop = [], len(values)
    for number, array in enumerate(arrays):
        placed.append((slice(stop - len(array), stop), (number + 1) * literal_bytes))
        stop -= len(array)
    printing = json_printer.measure_arrays(values, placed, tile_elements)
    guarded = Guarded(device)
    text = guarded.vector(len(arrays) * literal_bytes + sum(printing.array_bytes), torch.int8)
    json_printer.print_arrays(printing, text.view(torch.uint8))
    guarded.assert_guards_survive()
    whole, texts = text.tolist(), []
    for length in printing.array_bytes:
        assert whole[:literal_bytes] == [POISON] * literal_bytes
        texts.append(bytes(whole[literal_bytes : literal_bytes + length]))
        whole = whole[literal_bytes + length :]
    return texts


def expected(arrays: Sequence[Sequence[int]]) -> list[bytes]:
    """What JSON has behind the opening bracket of each array; nothing for one that is empty."""
    return [json.dumps(array, separators=(",", ":")).encode()[1:] if array else b"" for array in arrays]


def test_a_number_is_followed_by_a_comma_and_the_last_by_a_bracket(kernel_device: torch.device) -> None:
    assert printed([[0, -1, 10, 7], [-42]], kernel_device) == [b"0,-1,10,7]", b"-42]"]


@pytest.mark.parametrize("number", EXTREMES)
def test_an_extreme_is_printed_alone(number: int, kernel_device: torch.device) -> None:
    assert printed([[number]], kernel_device, 1) == expected([[number]])


@pytest.mark.parametrize("tile_elements", [16, 128])
def test_extremes_are_printed_beside_each_other(tile_elements: int, kernel_device: torch.device) -> None:
    assert printed([EXTREMES], kernel_device, tile_elements) == expected([EXTREMES])


@pytest.mark.parametrize("length", [0, 1, 7, 8, 9, 15, 16, 17])
def test_no_element_is_lost_where_a_tile_ends(length: int, kernel_device: torch.device) -> None:
    arrays = [list(range(95, 95 + length)), [5], list(range(-length, 0))]
    assert printed(arrays, kernel_device, 8, literal_bytes=3) == expected(arrays)


@given(st.lists(st.lists(NUMBERS, max_size=20), min_size=1, max_size=6), st.sampled_from([8, 16]), st.integers(0, 5))
@settings(deadline=None, max_examples=20)
def test_arrays_are_printed_between_literals(arrays: list[list[int]], tile_elements: int, literal_bytes: int) -> None:
    device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
    assert printed(arrays, device, tile_elements, literal_bytes) == expected(arrays)


def test_arrays_of_many_tiles_are_printed(kernel_device: torch.device) -> None:
    shifts = np.random.default_rng(3).integers(0, 64, 5003)
    array = (np.random.default_rng(4).integers(LOWEST, HIGHEST, 5003) >> shifts).tolist()
    assert printed([array, array[:1024]], kernel_device, 1024) == expected([array, array[:1024]])


def test_places_are_summed_up_in_any_number_of_steps_and_beyond_32_bits(kernel_device: torch.device) -> None:
    from service.kernels._json_print_kernel import _places_kernel

    lengths = torch.tensor([2, 0, 2**31 - 1, 2**31 - 1, 2**31 - 1, 3, 1], dtype=torch.int32, device=kernel_device)
    guarded = Guarded(kernel_device)
    places = guarded.vector(8)
    _places_kernel[(1,)](lengths, places, 7, BLOCK=4)
    guarded.assert_guards_survive()
    assert places.tolist() == [0, *np.cumsum(lengths.tolist(), dtype=np.int64).tolist()]


def test_after_the_warm_up_no_array_compiles_a_kernel(kernel_device: torch.device) -> None:
    from service.kernels import compile_events, json_printer

    compile_events.watch()
    json_printer.warm_up(kernel_device)
    before = compile_events.compiled_kernels()
    for length in (1, 15, 16, 1024, 1025, 5000):
        array = list(range(length))
        assert printed([array, [], [1]], kernel_device, json_printer.TILE_ELEMENTS, length % 3) == expected(
            [array, [], [1]]
        )
    assert compile_events.compiled_kernels() == before


@pytest.mark.gpu
def test_a_text_beyond_32_bits_is_printed(kernel_device: torch.device) -> None:
    from service.kernels import json_printer

    values = torch.full((2**27,), -(10**18), dtype=torch.int64, device=kernel_device)
    values[-1] = 7
    printing = json_printer.measure_arrays(values, [(slice(0, len(values)), 1)])
    assert printing.array_bytes == [21 * (2**27 - 1) + 2]
    text = torch.zeros(1 + printing.array_bytes[0], dtype=torch.uint8, device=kernel_device)
    json_printer.print_arrays(printing, text)
    assert bytes(text[-23:].tolist()) == b"-1000000000000000000,7]"
    commas = text[1:-2].view(-1, 21)
    assert bool((commas == commas[0]).all())
    assert text[0] == 0
