"""Device code that writes integers as JSON text. Jit bodies only.

A program does a *tile*: a run of at most BLOCK elements of one array. Each element is written with the byte that
follows it, a comma or, behind the last of its array, a closing bracket.
"""

import triton
import triton.language as tl

_ZERO = tl.constexpr(ord("0"))
_MINUS = tl.constexpr(ord("-"))
_COMMA = tl.constexpr(ord(","))
_CLOSE = tl.constexpr(ord("]"))
_LONGEST = tl.constexpr(19)
"""Digits of the longest int64."""
_LENGTH_POINTERS = ["values_ptr", "spans_ptr", "lengths_ptr"]
_PLACE_POINTERS = ["lengths_ptr", "places_ptr"]
_TEXT_POINTERS = ["values_ptr", "spans_ptr", "places_ptr", "text_ptr"]


@triton.jit
def _find_span(spans_ptr, arrays, tile):
    """The place in ``spans_ptr`` of the array that a tile is of: the last whose first tile is not after it."""
    low = arrays * 0
    high = arrays - 1
    while low < high:
        middle = (low + high + 1) // 2
        is_after = tl.load(spans_ptr + 4 * middle + 2) > tile
        low = tl.where(is_after, low, middle)
        high = tl.where(is_after, middle - 1, high)
    return spans_ptr + 4 * low


@triton.jit
def _read_tile(values_ptr, span_ptr, tile, BLOCK: tl.constexpr):
    """Sign and magnitude of the elements of a tile, which lanes have one, and which of them the last of its array."""
    stop = tl.load(span_ptr + 1)
    first = tl.load(span_ptr) + (tile - tl.load(span_ptr + 2)) * BLOCK
    at = first + tl.arange(0, BLOCK)
    mask = at < stop
    value = tl.load(values_ptr + at, mask=mask, other=0)
    negative = value < 0
    # The magnitude of the lowest int64 is one more than the highest: as an unsigned number it is right.
    magnitude = tl.where(negative, 0 - value, value).to(tl.uint64, bitcast=True)
    return negative, magnitude, mask, at + 1 == stop


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


@triton.jit(do_not_specialize=["arrays"], do_not_specialize_on_alignment=_LENGTH_POINTERS)
def _lengths_kernel(
    values_ptr,  # int64
    spans_ptr,  # [arrays, 4] int64: first element, the one after the last, first tile, literal bytes before its text
    lengths_ptr,  # [tiles] int32
    arrays: tl.int64,
    BLOCK: tl.constexpr,
):
    """Bytes of each tile's text."""
    tile = tl.program_id(0).to(tl.int64)
    span_ptr = _find_span(spans_ptr, arrays, tile)
    negative, magnitude, mask, _ = _read_tile(values_ptr, span_ptr, tile, BLOCK)
    digits, _ = _count_digits(magnitude)
    length = tl.where(mask, digits + negative.to(tl.int32) + 1, 0)
    tl.store(lengths_ptr + tile, tl.sum(length, 0))


@triton.jit(do_not_specialize=["tiles"], do_not_specialize_on_alignment=_PLACE_POINTERS)
def _places_kernel(
    lengths_ptr,  # [tiles] int32
    places_ptr,  # [tiles + 1] int64: bytes of all tiles before each, the last those of all
    tiles: tl.int64,
    BLOCK: tl.constexpr,
):
    """Sum up the tiles, in one program."""
    start = tiles * 0
    total = tiles * 0
    while start < tiles:
        lane = start + tl.arange(0, BLOCK)  # [BLOCK]
        mask = lane < tiles
        length = tl.load(lengths_ptr + lane, mask=mask, other=0).to(tl.int64)
        tl.store(places_ptr + lane, total + tl.cumsum(length, 0) - length, mask=mask)
        total += tl.sum(length, 0)
        start += BLOCK
    tl.store(places_ptr + tiles, total)


@triton.jit(do_not_specialize=["arrays"], do_not_specialize_on_alignment=_TEXT_POINTERS)
def _text_kernel(
    values_ptr,  # int64
    spans_ptr,  # [arrays, 4] int64, as above
    places_ptr,  # [tiles + 1] int64
    text_ptr,  # uint8
    arrays: tl.int64,
    BLOCK: tl.constexpr,
):
    """Write each tile's text behind that of all tiles and literals before it, the last digit of every element first.

    Every address is bounded by the sums that ``_places_kernel`` made of the same lengths.
    """
    tile = tl.program_id(0).to(tl.int64)
    span_ptr = _find_span(spans_ptr, arrays, tile)
    negative, magnitude, mask, is_last = _read_tile(values_ptr, span_ptr, tile, BLOCK)
    digits, longest = _count_digits(magnitude)
    length = tl.where(mask, digits + negative.to(tl.int32) + 1, 0)
    tile_ptr = text_ptr + tl.load(span_ptr + 3) + tl.load(places_ptr + tile)
    end = tl.cumsum(length, 0)
    tl.store(tile_ptr + (end - 1), tl.where(is_last, _CLOSE, _COMMA).to(tl.uint8), mask=mask)
    tl.store(tile_ptr + (end - length), (magnitude * 0 + _MINUS).to(tl.uint8), mask=mask & negative)
    for place in range(longest):
        rest = magnitude // 10
        digit = magnitude - rest * 10
        tl.store(tile_ptr + (end - 2 - place), (digit + _ZERO).to(tl.uint8), mask=mask & (place < digits))
        magnitude = rest
