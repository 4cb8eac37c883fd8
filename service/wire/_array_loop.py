"""Owns the loop over the text of one large array of integers, in the part of Python that numba compiles.

The loop only accepts. Anything but a vector, or a table of equally long rows that are not empty, of integers that fit
and are spelt as JSON has them, it leaves to the strict reader, wherever it is noticed. It also runs as Python, slowly.
No read leaves the text: a byte behind its end is 0, which may follow nothing.
"""

import numpy as np
from numba import types
from numba.cpython.unsafe.numbers import trailing_zeros
from numba.extending import overload, register_jitable
from numpy import uint64
from numpy.typing import NDArray

SIGNATURE = types.UniTuple(types.uint64, 4)(
    types.Array(types.uint8, 1, "C", readonly=True),
    types.Array(types.uint64, 1, "A", readonly=True, aligned=False),
    types.uint64,
    types.Array(types.uint32, 1, "C"),
    types.uint64,
    types.uint64,
)
"""The only one: compiled once, before it is called."""

WORD_BYTES = 8
_COMMA, _OPEN, _CLOSE, _MINUS, _ZERO, _SPACE = (ord(character) for character in ",[]-0 ")
_LINE_FEED, _RETURN, _TAB = (ord(character) for character in "\n\r\t")
_NONE, _ONE, _WORD, _WORD_BITS = uint64(0), uint64(1), uint64(WORD_BYTES), uint64(64)
_LONGEST_REST = uint64(3)  # 19 digits in all, which no uint64 is too small for
_SHIFT = uint64(32)
_LOW_HALF = uint64(0xFFFFFFFF)
_ZEROS = uint64(0x3030303030303030)
_CARRY_FROM_TEN = uint64(0x7676767676767676)
_HIGH_BITS = uint64(0x8080808080808080)
_POWERS = np.array([10**exponent for exponent in range(WORD_BYTES + 1)], np.uint64)


def read_integers(  # noqa: C901 - one loop: what it calls may not cost it a branch
    text: NDArray[np.uint8],
    words: NDArray[np.uint64],
    start: np.uint64,
    out: NDArray[np.uint32],
    width: np.uint64,
    most: np.uint64,
) -> tuple[np.uint64, np.uint64, np.uint64, np.uint64]:
    """Whether the whole array at ``text[start]`` was read (0 or 1), how many integers of it, how many there are in a
    row (0 for a vector), and the position after what was read.

    ``text`` [bytes] uint8 is a whole body, ``words`` [bytes - 7] uint64 its little-endian eight bytes from each
    position on. The integers, none above ``most`` nor below -``most`` - 1, go to ``out``, ``width`` halves each, low
    half first. Of any other text, and of more integers than ``out`` has room for, what comes first is read: whole rows,
    or the integers of a vector that have a comma behind them, which is next.
    """
    at = _after_space(text, start + _ONE)
    nested = _byte(text, at) == _OPEN
    if nested:
        at = _after_space(text, at + _ONE)
    room = uint64(out.size) // width
    count, columns, good, good_stop = _NONE, _NONE, _NONE, _NONE
    while count < room:
        negative, first = _NONE, _byte(text, at)
        if first == _MINUS:
            negative = _ONE
            at += _ONE
            first = _byte(text, at)
        magnitude, digits = _number(words, at)
        if digits == _NONE or magnitude > most + negative or (digits > _ONE and first == _ZERO):
            break
        _store(out, count, width, _NONE - magnitude if negative else magnitude)
        count += _ONE
        at = _after_space(text, at + digits)
        follows = _byte(text, at)
        if follows == _COMMA:
            if not nested:
                good, good_stop = count, at
            at = _after_space(text, at + _ONE)
            continue
        if follows != _CLOSE:
            break
        at += _ONE
        if not nested:
            return _ONE, count, columns, at
        width_of_row = count - good
        if columns and width_of_row != columns:
            break
        columns = width_of_row
        good, good_stop = count, at
        at, nested = _next_row(text, at)
        if not nested:
            return _ONE, count, columns, at
        if at == _NONE:
            break
    return _NONE, good, columns if good else _NONE, good_stop


@register_jitable(forceinline=True)
def _next_row(text: NDArray[np.uint8], at: np.uint64) -> tuple[np.uint64, bool]:
    """From behind a row to the first byte in the next one, or behind the table and False. Position 0 if neither."""
    at = _after_space(text, at)
    follows = _byte(text, at)
    if follows == _CLOSE:
        return at + _ONE, False
    if follows == _COMMA:
        at = _after_space(text, at + _ONE)
        if _byte(text, at) == _OPEN:
            return _after_space(text, at + _ONE), True
    return _NONE, True


@register_jitable(forceinline=True)
def _number(words: NDArray[np.uint64], at: np.uint64) -> tuple[np.uint64, np.uint64]:
    """The number that the digits from ``at`` on spell and how many they are; no digits if there are none or over 19."""
    digits, magnitude = _leading_digits(_word(words, at))
    if digits < _WORD:
        return magnitude, digits
    second, value = _leading_digits(_word(words, at + _WORD))
    magnitude = magnitude * _POWERS[second] + value
    if second < _WORD:
        return magnitude, digits + second
    rest, value = _leading_digits(_word(words, at + _WORD + _WORD))
    if rest > _LONGEST_REST:
        return _NONE, _NONE
    return magnitude * _POWERS[rest] + value, digits + second + rest


@register_jitable(forceinline=True)
def _leading_digits(word: np.uint64) -> tuple[np.uint64, np.uint64]:
    """How many of eight bytes, from the first, are digits, and the number that they spell."""
    values = word ^ _ZEROS
    others = ((values + _CARRY_FROM_TEN) | values) & _HIGH_BITS
    if others == _NONE:
        return _WORD, _eight_digits(values)
    bits = _trailing_zeros(others) - uint64(7)
    if bits == _NONE:
        return _NONE, _NONE
    return bits >> uint64(3), _eight_digits(values << (_WORD_BITS - bits))


@register_jitable(forceinline=True)
def _eight_digits(values: np.uint64) -> np.uint64:
    """The number that eight little-endian digit values spell, joined to pairs, fours and all eight."""
    pairs = values * uint64(10 * 2**8 + 1) >> uint64(8)
    fours = (pairs & uint64(0x00FF00FF00FF00FF)) * uint64(100 * 2**16 + 1) >> uint64(16)
    return (fours & uint64(0x0000FFFF0000FFFF)) * uint64(10000 * 2**32 + 1) >> uint64(32)


@register_jitable(forceinline=True)
def _store(out: NDArray[np.uint32], index: np.uint64, width: np.uint64, value: np.uint64) -> None:
    first = index * width
    out[first] = value & _LOW_HALF
    if width > _ONE:
        out[first + _ONE] = value >> _SHIFT


@register_jitable(forceinline=True)
def _after_space(text: NDArray[np.uint8], at: np.uint64) -> np.uint64:
    """The position of the first byte at or after ``at`` that is no white space."""
    byte = _byte(text, at)
    while byte <= _SPACE and (byte == _SPACE or byte == _LINE_FEED or byte == _RETURN or byte == _TAB):  # noqa: SIM109 - quicker
        at += _ONE
        byte = _byte(text, at)
    return at


@register_jitable(forceinline=True)
def _byte(text: NDArray[np.uint8], at: np.uint64) -> np.uint8:
    """The byte at ``at``, 0 behind the end."""
    return text[at] if at < uint64(text.size) else np.uint8(0)


@register_jitable(forceinline=True)
def _word(words: NDArray[np.uint64], at: np.uint64) -> np.uint64:
    """The eight bytes from ``at`` on, 0 behind the end of the text."""
    last = uint64(words.size) - _ONE
    if at <= last:
        return words[at]
    bytes_cut = at - last
    return words[last] >> (bytes_cut << uint64(3)) if bytes_cut < _WORD else _NONE


def _trailing_zeros(mask: np.uint64) -> np.uint64:
    """How many bits below the lowest set one; at least one is set."""
    return uint64((int(mask) & -int(mask)).bit_length() - 1)


@overload(_trailing_zeros)
def _compiled_trailing_zeros(mask):  # noqa: ARG001 - numba compares the names
    return lambda mask: trailing_zeros(mask)
