"""Owns the decoding of one field's array of integers from JSON text. Knows the field, not the body around it.

The text is read in pieces, each by a fixed number of numpy operations; the first faulty token is then read again by
itself, to say what is wrong with it.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from service.errors import Refusal, refusal
from service.spec import TensorSpec
from service.wire.field_rules import IntArray
from service.wire.int_text import (
    AFTER_NUMBER,
    AFTER_ROW,
    AT_START,
    CLOSE,
    LONGEST_INTEGER_BYTES,
    NUMBER,
    OPEN,
    parse_integers,
    tokenize,
)
from service.wire.json_members import Span
from service.wire.json_token import Token, byte_at, malformed, read_value
from service.wire.nesting import DEEPEST_LEVEL, Brackets, Nesting

PIECE_BYTES = 1024 * 1024

_SHOWN_DIGITS = 1024
_SEPARATORS = (b",", b"[", b"]", b" ", b"\n", b"\r", b"\t")


@dataclass(frozen=True, slots=True)
class Beginning:
    """The first ``values`` of an array, which are right: whole rows of ``columns``, or those of a vector if that is 0.

    ``stop`` is the position after them: behind a row, or of the comma behind a number.
    """

    values: IntArray
    columns: int
    stop: int


def decode_int_array(
    body: bytes, span: Span, spec: TensorSpec, piece_bytes: int = PIECE_BYTES, beginning: Beginning | None = None
) -> tuple[IntArray, int]:
    """The array that begins at ``span.start``, of the field's dtype and the text's shape, and the position after it.

    ``[]`` has no row for a table: shape (0, 0). ``piece_bytes`` is at least ``LONGEST_INTEGER_BYTES`` + 1. What has
    been read of the array, its ``beginning``, is not read again.
    """
    reader = _Reader(body, spec)
    # The quote at the end of the span belongs to an element if the array is still open there.
    limit = min(span.stop + 1, len(body))
    start = span.start
    if beginning:
        reader.begin(beginning)
        start = beginning.stop
    while start < limit:
        stop = _piece_stop(body, start, min(start + piece_bytes, limit), limit)
        end = reader.read(start, stop)
        if end is not None:
            return reader.array(), end
        start = stop
    raise malformed("it ends inside an array", limit)


def does_not_fit(body: bytes, token: Token, place: str, dtype: str) -> Refusal:
    """The refusal of an integer that does not fit: the number as written, abbreviated above 1024 digits."""
    start = token.start + (body[token.start] == ord("-"))
    digits = token.stop - start
    shown = token.stop if digits <= _SHOWN_DIGITS else start + 9
    value = body[token.start : shown].decode()
    if digits > _SHOWN_DIGITS:
        value += f"…({digits} digits)"
    return refusal("value-does-not-fit", place=place, value=value, dtype=dtype)


def _piece_stop(body: bytes, start: int, stop: int, limit: int) -> int:
    """Where a piece ends: between two tokens, or inside one that is longer than any integer and so at fault anyhow."""
    if stop == limit:
        return limit
    search = max(start, stop - LONGEST_INTEGER_BYTES - 1)
    last = max(body.rfind(separator, search, stop) for separator in _SEPARATORS)
    return last + 1 if last >= 0 else stop


@dataclass(slots=True)
class _Reader:
    body: bytes
    spec: TensorSpec
    nesting: Nesting = field(default_factory=Nesting)
    previous: int = AT_START
    values: list[IntArray] = field(default_factory=list)

    def begin(self, beginning: Beginning) -> None:
        """Stand where an array has been read to."""
        self.nesting.begin(len(beginning.values), beginning.columns)
        self.previous = AFTER_ROW if beginning.columns else AFTER_NUMBER
        self.values.append(beginning.values)

    def read(self, start: int, stop: int) -> int | None:
        """Read one piece. The position after the array if the piece closes it."""
        text = np.frombuffer(self.body, np.uint8, stop - start, start)
        tokens = tokenize(text)
        at = np.flatnonzero((tokens.codes & (OPEN | CLOSE)).astype(bool))
        opens = (tokens.codes[at] & OPEN).astype(bool)
        depths = self.nesting.depths(opens)
        closes = bool((depths == 0).any())
        count = int(at[(depths == 0).argmax()]) + 1 if closes else len(tokens.codes)
        # Each check shortens the run of tokens known to be good, so the first fault in reading order is what is left.
        good = min(count, tokens.first_fault(text, self.previous))
        is_number = (tokens.codes[:good] & NUMBER).astype(bool)
        numbers = np.flatnonzero(is_number)
        integers = parse_integers(text, tokens.starts[numbers], tokens.digits_stop[: len(numbers)], self.spec.dtype)
        if integers.num_valid < len(numbers):
            good = int(numbers[integers.num_valid])
        at = at[: np.searchsorted(at, good)]
        numbers_before = np.cumsum(is_number, dtype=np.int32)[at]
        piece = Brackets(opens[: len(at)], depths[: len(at)], numbers_before, integers.num_valid)
        good = self._follow(at, piece, numbers, good)
        if good:
            self.previous = int(tokens.codes[good - 1])
        if good < count:
            raise self._fault(start + int(tokens.starts[good]))
        self.values.append(integers.values)
        return start + int(tokens.starts[count - 1]) + 1 if closes else None

    def _follow(self, at: NDArray[np.intp], piece: Brackets, numbers: NDArray[np.intp], good: int) -> int:
        """Follow the brackets of ``good`` tokens. How many tokens, from the first, stand where they may."""
        misplaced = self.nesting.first_misplaced(piece)
        if misplaced.bracket < len(at):
            good = int(at[misplaced.bracket])
        if misplaced.number < piece.numbers:
            good = min(good, int(numbers[misplaced.number]))
        piece = piece.until(int(np.searchsorted(at, good)), int(np.searchsorted(numbers[: piece.numbers], good)))
        ragged = self.nesting.advance(piece)
        if ragged:
            raise refusal("ragged-rows", name=self.spec.name, row=ragged.row, have=ragged.have, want=ragged.want)
        return good

    def _fault(self, position: int) -> Refusal:
        """What is wrong with the token at ``position``, all tokens before it being right."""
        if self.previous & (NUMBER | CLOSE):
            return malformed("a comma or a closing bracket is missing", position)
        token = read_value(self.body, position)
        if token.kind == "array" and self.nesting.depth == DEEPEST_LEVEL:
            return refusal("nesting-too-deep", name=self.spec.name, limit=DEEPEST_LEVEL)
        place = self.spec.name + "".join(f"[{index}]" for index in self.nesting.path)
        if token.kind != "integer":
            return refusal("not-an-integer", place=place, kind=token.kind)
        if byte_at(self.body, token.stop) == b"}":
            return malformed("a comma or a closing bracket is missing", token.stop)
        if self.nesting.depth < self.nesting.deepest:
            return refusal("not-an-array", place=place)
        return does_not_fit(self.body, token, place, self.spec.dtype)

    def array(self) -> IntArray:
        """The closed array."""
        shape = self.nesting.shape
        if shape == (0,):
            shape = (0,) * self.spec.rank
        joined: IntArray = np.empty(shape, self.spec.dtype)
        flat = joined.reshape(-1)
        stop = flat.size
        while self.values:  # each piece is freed as soon as it is copied, rather than all at one stroke
            piece = self.values.pop()
            flat[stop - len(piece) : stop] = piece
            stop -= len(piece)
        return joined
