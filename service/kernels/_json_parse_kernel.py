"""Device code that reads the text of one array of integers. Jit bodies only.

The text is read in tiles of BLOCK bytes. An array's text is valid if every byte may stand after the three before it, so
all tiles are judged at once, and in a tile four bytes at once: a *set* of the bytes of a word has the highest bit of
each byte that is in it. A number is known by its end: the comma or bracket behind its last digit.
"""

import triton
import triton.language as tl

_EACH = tl.constexpr(0x01010101)
_ALL = tl.constexpr(0x80808080)
"""The set of all four bytes."""
_BELOW = tl.constexpr(0x7F7F7F7F)
_COMMA = tl.constexpr(ord(","))
_OPEN = tl.constexpr(ord("["))
_SPACE = tl.constexpr(ord(" "))
_ZERO = tl.constexpr(ord("0"))
_MINUS = tl.constexpr(ord("-"))
_CLOSE = tl.constexpr(ord("]"))
_NO_CLOSE = tl.constexpr(2**31 - 1)
"""More numbers than any text has: the length of the first row while its end is not in sight."""

_QUOTE = tl.constexpr(ord('"'))
_QUOTE_POINTERS = ["words_ptr", "found_ptr"]
_SURVEY_POINTERS = ["words_ptr", "ends_ptr", "counts_ptr", "first_rows_ptr"]
_SUM_POINTERS = ["counts_ptr", "first_rows_ptr", "bases_ptr", "summary_ptr"]
_READ_POINTERS = ["text_ptr", "ends_ptr", "counts_ptr", "bases_ptr", "summary_ptr", "integers_ptr"]


@triton.jit
def _without(found):
    """The set of all other bytes; only the highest bit of each byte counts."""
    return (found & _ALL) ^ _ALL


@triton.jit
def _set_of(words, character: tl.constexpr):
    """The set of the bytes that are ``character``."""
    others = words ^ (character * _EACH)
    return _without((others & _BELOW) + _BELOW | others)


@triton.jit
def _digits(words):
    """The set of the bytes that are digits."""
    values = words ^ (_ZERO * _EACH)
    return _without((values & _BELOW) + (0x80 - 10) * _EACH | values)


@triton.jit
def _moved(found, found_before, by: tl.constexpr):
    """The set of the bytes that have a byte of ``found`` ``by`` bytes before them, in the word or the one before it."""
    return (found << (8 * by)) | (found_before >> (32 - 8 * by))


@triton.jit
def _bytes_in(found):
    """How many bytes a set has."""
    ones = found >> 7
    return ((ones + (ones >> 8) + (ones >> 16) + (ones >> 24)) & 7).to(tl.int32)


@triton.jit
def _only(word, byte):
    """The set of each word that has byte number ``byte`` of the text, and of all words no other."""
    found = tl.full((), 128, tl.int64) << (8 * (byte % 4)).to(tl.int64)
    return tl.where(word == byte // 4, found, 0).to(tl.uint32)


@triton.jit
def _judge(words, before, first, second, last, table):
    """The bytes that may stand where they do, the ends of numbers, and the closing brackets: sets of ``words``.

    ``before`` are the words before them. ``first`` has the text's first byte, ``second`` its second if it is a table,
    ``last`` its last; ``table`` has all bytes if it is a table and none if not. A table is ``[[``, rows, ``]]``, an
    array of one level is ``[``, numbers, ``]``; there may be one space after a comma, and no other.
    """
    digit, digit_before = _digits(words), _digits(before)
    comma, comma_before = _set_of(words, _COMMA), _set_of(before, _COMMA)
    close, close_before = _set_of(words, _CLOSE), _set_of(before, _CLOSE)
    space = _set_of(words, _SPACE)
    minus = _set_of(words, _MINUS)
    opening = _set_of(words, _OPEN)
    after_digit = _moved(digit, digit_before, 1)
    after_2_digit = _moved(digit, digit_before, 2)
    after_comma = _moved(comma, comma_before, 1)
    after_close = _moved(close, close_before, 1)
    after_minus = _moved(minus, _set_of(before, _MINUS), 1)
    after_zero = _moved(_set_of(words, _ZERO), _set_of(before, _ZERO), 1)
    after_opening = _moved(opening, _set_of(before, _OPEN), 1)
    after_comma_space = _moved(space, _set_of(before, _SPACE), 1) & _moved(comma, comma_before, 2)

    number = (after_opening & _without(second)) | (after_comma & after_2_digit)
    number |= after_comma_space & _moved(digit, digit_before, 3)
    row = (after_comma & _moved(close, close_before, 2)) | (after_comma_space & _moved(close, close_before, 3))
    good = digit & ((after_digit & (_without(after_zero) | after_2_digit)) | after_minus | number)
    good |= minus & number
    good |= comma & (after_digit | (after_close & table))
    good |= space & after_comma
    good |= opening & (first | second | (row & table))
    good |= close & ((after_digit & (last ^ table)) | (after_close & last & table))
    good &= (opening | _without(first)) & (close | _without(last))
    return good, after_digit & (comma | close), close


@triton.jit(do_not_specialize=["num_bytes", "most"], do_not_specialize_on_alignment=_QUOTE_POINTERS)
def _quotes_kernel(
    words_ptr,  # [ceil(num_bytes / 4)] int32: the bytes of a body
    found_ptr,  # [1 + most] int64: 0, and room
    num_bytes: tl.int64,
    most: tl.int64,
    BLOCK: tl.constexpr,
):
    """Where the quotes in one tile of a body are: how many is added to the first element, the positions go behind it in
    no order, those for which there is no room are left out.
    """
    start = tl.program_id(0).to(tl.int64) * BLOCK
    word = start // 4 + tl.arange(0, BLOCK // 4)  # [BLOCK / 4], as all that follows
    words = tl.load(words_ptr + word, mask=word * 4 < num_bytes, other=0).to(tl.uint32)
    quotes = _set_of(words, _QUOTE)
    if tl.max((quotes != 0).to(tl.int32), 0) != 0:
        for byte in tl.static_range(4):
            at = word * 4 + byte
            is_quote = ((quotes >> (8 * byte + 7)) & 1).to(tl.int32) * (at < num_bytes).to(tl.int32)
            upto = tl.cumsum(is_quote, 0)
            before = tl.atomic_add(found_ptr, tl.sum(is_quote, 0).to(tl.int64))
            place = before + upto - is_quote
            tl.store(found_ptr + 1 + place, at, mask=(is_quote != 0) & (place < most))


@triton.jit(do_not_specialize=["start", "stop", "is_table"], do_not_specialize_on_alignment=_SURVEY_POINTERS)
def _survey_kernel(
    words_ptr,  # [ceil(stop / 4)] int32: bytes of which [start, stop) are the text
    ends_ptr,  # [tiles, BLOCK / 2] int16: where in the tile its numbers end; those beyond its count are undefined
    counts_ptr,  # [tiles] int32: how many numbers end in the tile, -1 if a byte in it may not stand where it does
    first_rows_ptr,  # [tiles] int32: how many of them end at or before the first bracket that closes, _NO_CLOSE if none
    start: tl.int64,  # 0 <= start < 4
    stop: tl.int64,  # start < stop <= 2^30 + 4
    is_table: tl.int64,
    BLOCK: tl.constexpr,
):
    """Judge one tile of the text, and find where numbers end. An end is never next to another, so half a tile is room.

    Every address is bounded by the text: word < ceil(stop / 4), tile < ceil(stop / BLOCK).
    """
    tile = tl.program_id(0)
    lane = tl.arange(0, BLOCK // 4)  # [BLOCK / 4], as all that follows
    word = tile * (BLOCK // 4) + lane
    in_text = word * 4 < stop
    words = tl.load(words_ptr + word, mask=in_text, other=0).to(tl.uint32)
    before = tl.load(words_ptr + word - 1, mask=in_text & (word > 0), other=0).to(tl.uint32)
    table = tl.where(is_table != 0, _ALL, 0).to(tl.uint32)
    first, last = _only(word, start), _only(word, stop - 1)
    inside = tl.where(in_text, _ALL, 0).to(tl.uint32)
    inside = tl.where(last != 0, last | (last - 1), inside)
    inside &= tl.where(first != 0, _without(first - 1), _ALL)
    good, ends, close = _judge(words, before, first, _only(word, start + 1) & table, last, table)
    ends &= inside
    close &= inside

    faulty = tl.max(((inside & _without(good)) != 0).to(tl.int32), 0)
    count = _bytes_in(ends)
    upto = tl.cumsum(count, 0)
    until_close = close ^ (close - 1)  # the bits up to the first closing bracket
    in_first_row = tl.where(close != 0, upto - count + _bytes_in(ends & until_close), _NO_CLOSE)
    tl.store(counts_ptr + tile, tl.where(faulty != 0, -1, tl.sum(count, 0)))
    tl.store(first_rows_ptr + tile, tl.min(in_first_row, 0))
    # Of two bytes next to each other one at most is an end.
    tile_ends_ptr = ends_ptr + tile.to(tl.int64) * (BLOCK // 2)
    low, high = ends & 0x8080, ends >> 16
    at = upto - count
    tl.store(tile_ends_ptr + at, (4 * lane + (low >> 15).to(tl.int32)).to(tl.int16), mask=low != 0)
    at += (low != 0).to(tl.int32)
    tl.store(tile_ends_ptr + at, (4 * lane + 2 + (high >> 15).to(tl.int32)).to(tl.int16), mask=high != 0)


@triton.jit(do_not_specialize=["tiles"], do_not_specialize_on_alignment=_SUM_POINTERS)
def _sum_kernel(
    counts_ptr,  # [tiles] int32, of the survey
    first_rows_ptr,  # [tiles] int32, of the survey
    bases_ptr,  # [tiles] int64: how many numbers end before the tile
    summary_ptr,  # [4] int64: 1 if a tile is faulty, else 0; all numbers; those of the first row; 0
    tiles: tl.int64,
    BLOCK: tl.constexpr,
):
    """Sum up the tiles, in one program. After a fault only the fault is meant."""
    start = tiles * 0
    numbers = tiles * 0
    faulty = tiles * 0
    first_row = tiles * 0 + _NO_CLOSE
    while start < tiles:
        lane = start + tl.arange(0, BLOCK)  # [BLOCK]
        mask = lane < tiles
        count = tl.load(counts_ptr + lane, mask=mask, other=0).to(tl.int64)
        in_first_row = tl.load(first_rows_ptr + lane, mask=mask, other=_NO_CLOSE).to(tl.int64)
        base = numbers + tl.cumsum(count, 0) - count
        tl.store(bases_ptr + lane, base, mask=mask)
        # The tile with the first closing bracket has the fewest numbers before it.
        first_row = tl.minimum(first_row, tl.min(base + in_first_row, 0))
        faulty = tl.maximum(faulty, tl.max((count < 0).to(tl.int64), 0))
        numbers += tl.sum(count, 0)
        start += BLOCK
    tl.store(summary_ptr, faulty)
    tl.store(summary_ptr + 1, numbers)
    tl.store(summary_ptr + 2, first_row)
    tl.store(summary_ptr + 3, start * 0)


@triton.jit
def _read_backwards(text_ptr, end, mask, DIGITS: tl.constexpr):
    """The number before each ``end``, meaningless unless it fits, whether it is negative, and whether it is too long.

    Of up to 18 digits nine are added up in 32 bits at a time.
    """
    in_number = mask
    negative = mask & (end < 0)
    low = end * 0
    middle = end * 0
    high = end * 0
    for back in tl.static_range(1, DIGITS + 2):
        # Bounded by the first word of the text: 0 <= end - back.
        byte = tl.load(text_ptr + end - back, mask=mask & (end >= back), other=0).to(tl.int32)
        negative = negative | (in_number & (byte == _MINUS))
        digit = byte - _ZERO
        in_number = in_number & (digit >= 0) & (digit < 10)
        digit = tl.where(in_number, digit, 0)
        if back <= 9:
            low += digit * 10 ** (back - 1)
        elif back <= 18:
            middle += digit * 10 ** (back - 10)
        elif back <= DIGITS:
            high += digit
    magnitude = low.to(tl.int64) + middle.to(tl.int64) * 1000000000 + high.to(tl.int64) * 1000000000000000000
    return magnitude, negative, in_number


@triton.jit(do_not_specialize=["columns", "numbers"], do_not_specialize_on_alignment=_READ_POINTERS)
def _read_kernel(
    text_ptr,  # [stop] uint8, the bytes of the survey, which has found no fault in the text
    ends_ptr,  # [tiles, BLOCK / 2] int16, of the survey
    counts_ptr,  # [tiles] int32, of the survey
    bases_ptr,  # [tiles] int64, of the sum
    summary_ptr,  # [4] int64: the last becomes 1 if a number does not fit or a row has another length than the first
    integers_ptr,  # [numbers] int32 or int64
    columns: tl.int64,
    numbers: tl.int64,
    DIGITS: tl.constexpr,
    BLOCK: tl.constexpr,
    LANES: tl.constexpr,
):
    """Read the numbers that end in one tile, and check that rows end after multiples of ``columns`` > 0 numbers.

    DIGITS is 10 for int32 and 19 for int64.
    """
    tile = tl.program_id(0).to(tl.int64)
    count = tl.load(counts_ptr + tile)
    base = tl.load(bases_ptr + tile)
    columns = columns.to(tl.int32)
    misread = count * 0
    start = count * 0
    while start < count:
        lane = start + tl.arange(0, LANES)  # [LANES]
        mask = lane < count
        end_in_tile = tl.load(ends_ptr + tile * (BLOCK // 2) + lane, mask=mask, other=0)
        end = (tile * BLOCK).to(tl.int32) + end_in_tile.to(tl.int32)
        magnitude, negative, too_long = _read_backwards(text_ptr, end, mask, DIGITS)
        if DIGITS == 10:
            fits = magnitude <= 2147483647 + negative.to(tl.int64)
        else:
            # Less than 2^64 as it is, so above int64 it has wrapped once; 2^63 is the one that a minus lets in.
            fits = (magnitude >= 0) | (negative & ((magnitude << 1) == 0))
        index = base + lane
        ends_row = tl.load(text_ptr + end, mask=mask, other=0) == _CLOSE
        ragged = ends_row != ((index + 1).to(tl.int32) % columns == 0)
        bad = mask & (too_long | (fits == 0) | ragged)
        misread = tl.maximum(misread, tl.max(bad.to(tl.int32), 0))
        value = tl.where(negative, -magnitude, magnitude)
        # Bounded by the room: index < numbers, which is the sum of all counts.
        tl.store(integers_ptr + index, value.to(integers_ptr.dtype.element_ty), mask=mask & (index < numbers))
        start += LANES
    tl.store(summary_ptr + 3, tl.full((), 1, tl.int64), mask=misread != 0)
