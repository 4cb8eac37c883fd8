"""Device code that writes integers as JSON text. Jit bodies only.

A program does a *tile*: a run of elements of one array. Each element is written with the byte that follows it, a comma
or, behind the last of its array, a closing bracket.
"""

import triton
import triton.language as tl

_ZERO = tl.constexpr(ord("0"))
_MINUS = tl.constexpr(ord("-"))
_COMMA = tl.constexpr(ord(","))
_CLOSE = tl.constexpr(ord("]"))
_LONGEST = tl.constexpr(19)
"""Digits of the longest int64."""
_LENGTH_POINTERS = ["values_ptr", "tiles_ptr", "lengths_ptr"]
_TEXT_POINTERS = ["values_ptr", "tiles_ptr", "places_ptr", "text_ptr"]


@triton.jit
def _read_tile(values_ptr, tiles_ptr, BLOCK: tl.constexpr):
    """Index, sign and magnitude of the elements of the program's tile, and which lanes have one.

    A tile of ``tiles_ptr`` [tiles, 3] int64 is its first element, the one after its last, and the one after its array.
    """
    tile = tl.program_id(0).to(tl.int64)
    first = tl.load(tiles_ptr + 3 * tile)
    stop = tl.load(tiles_ptr + 3 * tile + 1)
    at = first + tl.arange(0, BLOCK)
    mask = at < stop
    value = tl.load(values_ptr + at, mask=mask, other=0)
    negative = value < 0
    # The magnitude of the lowest int64 is one more than the highest: as an unsigned number it is right.
    magnitude = tl.where(negative, 0 - value, value).to(tl.uint64, bitcast=True)
    return at, mask, negative, magnitude


@triton.jit
def _count_digits(magnitude):
    """How many digits each number has, one by one up to those of the largest."""
    digits = (magnitude * 0).to(tl.int32) + 1
    largest = tl.max(magnitude, 0)
    power = largest * 0 + 10
    count = 1
    while (count < _LONGEST) & (power <= largest):
        digits += (magnitude >= power).to(tl.int32)
        power *= 10
        count += 1
    return digits, count


@triton.jit(do_not_specialize_on_alignment=_LENGTH_POINTERS)
def _lengths_kernel(
    values_ptr,  # int64
    tiles_ptr,  # [tiles, 3] int64
    lengths_ptr,  # [tiles] int64
    BLOCK: tl.constexpr,
):
    """Bytes of each tile's text."""
    _, mask, negative, magnitude = _read_tile(values_ptr, tiles_ptr, BLOCK)
    digits, _ = _count_digits(magnitude)
    length = tl.where(mask, digits + negative.to(tl.int32) + 1, 0)
    tl.store(lengths_ptr + tl.program_id(0), tl.sum(length, 0).to(tl.int64))


@triton.jit(do_not_specialize_on_alignment=_TEXT_POINTERS)
def _text_kernel(
    values_ptr,  # int64
    tiles_ptr,  # [tiles, 3] int64
    places_ptr,  # [tiles] int64
    text_ptr,  # uint8
    BLOCK: tl.constexpr,
):
    """Write each tile's text from its place on, the last digit of every element first."""
    tile = tl.program_id(0).to(tl.int64)
    at, mask, negative, magnitude = _read_tile(values_ptr, tiles_ptr, BLOCK)
    digits, longest = _count_digits(magnitude)
    length = tl.where(mask, digits + negative.to(tl.int32) + 1, 0)
    end = tl.load(places_ptr + tile) + tl.cumsum(length, 0)
    array_stop = tl.load(tiles_ptr + 3 * tile + 2)
    follows = tl.where(at + 1 == array_stop, _CLOSE, _COMMA)
    tl.store(text_ptr + (end - 1), follows.to(tl.uint8), mask=mask)
    tl.store(text_ptr + (end - length), (magnitude * 0 + _MINUS).to(tl.uint8), mask=mask & negative)
    for place in range(longest):
        rest = magnitude // 10
        digit = magnitude - rest * 10
        tl.store(text_ptr + (end - 2 - place), (digit + _ZERO).to(tl.uint8), mask=mask & (place < digits))
        magnitude = rest
