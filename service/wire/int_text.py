"""Owns vectorised reading of the text of integer arrays: bytes to tokens, tokens to integers. Knows no nesting.

Every step is a handful of numpy operations over one piece of text, so none holds the interpreter lock for long.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from service.spec import INTEGER_RANGE, Dtype

COMMA, OPEN, CLOSE, NUMBER = 1, 2, 4, 8
_FOLLOW_SHIFT = 4
AT_START = OPEN << _FOLLOW_SHIFT
AFTER_ROW = CLOSE | (COMMA | CLOSE) << _FOLLOW_SHIFT
AFTER_NUMBER = NUMBER | (COMMA | CLOSE) << _FOLLOW_SHIFT

LONGEST_INTEGER_BYTES = 20
"""Bytes of the longest integer that a field holds, its sign included."""

_LONGEST_DIGITS = 19
_WORD_DIGITS = 8
_PADDING = 3 * _WORD_DIGITS
_MINUS, _ZERO, _SPACE = ord("-"), ord("0"), ord(" ")


def _token_codes() -> NDArray[np.uint8]:
    """[256] uint8: the kind of token that a byte begins, and above it the kinds that may follow; 0 for no token."""
    codes = np.zeros(256, np.uint8)
    codes[ord(",")] = COMMA | (OPEN | NUMBER) << _FOLLOW_SHIFT
    codes[ord("[")] = OPEN | (OPEN | CLOSE | NUMBER) << _FOLLOW_SHIFT
    codes[ord("]")] = AFTER_ROW
    codes[[_MINUS, *range(_ZERO, _ZERO + 10)]] = AFTER_NUMBER
    return codes


_CODES = _token_codes()
_KEEP_LAST = np.array([0] + [(0x0F0F0F0F0F0F0F0F << 8 * (8 - n)) % 2**64 for n in range(1, 9)], np.uint64)
"""[9] uint64: the mask that keeps the values of the last n of eight little-endian digits."""


@dataclass(frozen=True, slots=True)
class Tokens:
    """The tokens of a piece of text.

    ``starts`` [n] is the byte at which each begins, ``codes`` [n] uint8 its kind with the kinds that may follow,
    ``digits_stop`` the byte after each NUMBER token. A token that is none of the four kinds has code 0.
    """

    starts: NDArray[np.intp]
    codes: NDArray[np.uint8]
    digits_stop: NDArray[np.intp]

    def first_fault(self, text: NDArray[np.uint8], previous: int) -> int:
        """The index of the first token that may not follow its predecessor, their count if all may.

        Text that touches a number is part of its misspelling: the fault is the number then.
        """
        before = np.empty_like(self.codes)
        before[:1] = previous
        before[1:] = self.codes[:-1]
        illegal = (before >> _FOLLOW_SHIFT) & self.codes == 0
        if not illegal.any():
            return len(self.codes)
        first = int(illegal.argmax())
        touches = first > 0 and self.codes[first - 1] & NUMBER and not self.codes[first] & (COMMA | OPEN | CLOSE)
        if touches and text[self.starts[first] - 1] > _SPACE:
            return first - 1
        return first


def tokenize(text: NDArray[np.uint8]) -> Tokens:
    """The tokens of ``text`` [bytes] uint8, which begins and ends between two tokens or inside a faulty one."""
    digit = text - np.uint8(_ZERO) < 10  # wraps below "0"
    minus = text == _MINUS
    skipped = text == _SPACE
    if (text < _SPACE).any():
        skipped |= (text == ord("\n")) | (text == ord("\r")) | (text == ord("\t"))
    signed = bool(minus.any())
    numeric = digit | minus if signed else digit
    skipped[1:] |= digit[1:] & numeric[:-1]
    starts = np.flatnonzero(~skipped)
    codes = _CODES.take(text.take(starts))
    last = digit.copy()
    last[:-1] &= ~digit[1:]
    if signed:
        bare = minus.copy()
        bare[:-1] &= ~digit[1:]
        codes[np.searchsorted(starts, np.flatnonzero(bare))] = 0
    return Tokens(starts, codes, np.flatnonzero(last) + 1)


@dataclass(frozen=True, slots=True)
class Integers:
    """``values`` [n] of the field's dtype, and how many of them, from the first, can be trusted."""

    values: NDArray[np.int32] | NDArray[np.int64]
    num_valid: int


def parse_integers(
    text: NDArray[np.uint8], starts: NDArray[np.intp], stops: NDArray[np.intp], dtype: Dtype
) -> Integers:
    """The integers at ``text[starts[i]:stops[i]]``, up to the first that has a leading zero or does not fit."""
    negative = text.take(starts) == _MINUS
    signed = bool(negative.any())
    first_digits = starts + negative if signed else starts
    lengths = stops - first_digits
    longest = int(lengths.max(initial=0))
    magnitudes = _magnitudes(text, stops, lengths, min(longest, _LONGEST_DIGITS))
    limits = np.uint64(INTEGER_RANGE[dtype][1]) + negative.astype(np.uint64)
    faulty = (magnitudes > limits) | (lengths > _LONGEST_DIGITS)
    faulty |= (text.take(first_digits) == _ZERO) & (lengths > 1)
    num_valid = int(faulty.argmax()) if faulty.any() else len(faulty)
    values = magnitudes.astype(np.int64)
    if signed:
        np.negative(values, where=negative, out=values)
    return Integers(values.astype(dtype, copy=False), num_valid)


def _magnitudes(
    text: NDArray[np.uint8], stops: NDArray[np.intp], lengths: NDArray[np.intp], longest: int
) -> NDArray[np.uint64]:
    """[n] uint64: the digits before each stop as a number, meaningless above 19 digits. Eight digits at a time."""
    padded = np.empty(len(text) + _PADDING, np.uint8)
    padded[:_PADDING] = _ZERO
    padded[_PADDING:] = text
    words = np.ndarray(len(text) + _PADDING - _WORD_DIGITS + 1, "<u8", padded, strides=(1,))  # one word per byte
    total = np.zeros(len(stops), np.uint64)
    for skipped in range(0, longest, _WORD_DIGITS):
        word = words[stops + (_PADDING - _WORD_DIGITS - skipped)]
        word &= _KEEP_LAST.take(lengths - skipped, mode="clip")
        total += _eight_digits(word) * np.uint64(10**skipped)
    return total


def _eight_digits(word: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """[n] uint64: the number that eight little-endian digit values spell, joined to pairs, fours and all eight."""
    word = word * np.uint64(10 * 2**8 + 1) >> np.uint64(8)
    word = (word & np.uint64(0x00FF00FF00FF00FF)) * np.uint64(100 * 2**16 + 1) >> np.uint64(16)
    return (word & np.uint64(0x0000FFFF0000FFFF)) * np.uint64(10000 * 2**32 + 1) >> np.uint64(32)
