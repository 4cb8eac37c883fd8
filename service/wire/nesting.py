"""Owns the shape of an array that is read in pieces: depth, row lengths, and where in it the reader stands.

Knows neither bytes nor values: a piece is its brackets and how many numbers stand before each of them.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

DEEPEST_LEVEL = 8


@dataclass(frozen=True, slots=True)
class Brackets:
    """The brackets of a piece: which open, [b] bool; the depth after each and the numbers before each, [b] int32."""

    opens: NDArray[np.bool_]
    depths: NDArray[np.int32]
    numbers_before: NDArray[np.int32]
    numbers: int

    def until(self, bracket: int, numbers: int) -> "Brackets":
        """The piece that ends before ``bracket`` and after its first ``numbers`` numbers."""
        return Brackets(self.opens[:bracket], self.depths[:bracket], self.numbers_before[:bracket], numbers)


@dataclass(frozen=True, slots=True)
class Misplaced:
    """What may not stand where it does: the first such bracket and the first such number, their counts if none."""

    bracket: int
    number: int


@dataclass(frozen=True, slots=True)
class RaggedRow:
    """A row that differs in length from row 0 of its level, and the bracket of the piece that closes it."""

    bracket: int
    row: int
    have: int
    want: int


@dataclass(slots=True)
class _Level:
    """The arrays of one level: the length of the first, how many are closed, and the elements of all of them."""

    row_length: int = -1
    rows: int = 0
    elements: int = 0
    elements_before_open_row: int = 0


@dataclass(slots=True)
class Nesting:
    """Where a reader of a nested array stands. Level 1 holds the elements of the outermost array."""

    depth: int = 0
    deepest: int = 0
    has_numbers: bool = False
    _levels: list[_Level] = field(default_factory=lambda: [_Level() for _ in range(DEEPEST_LEVEL + 2)])

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the closed array."""
        return tuple(level.row_length for level in self._levels[1 : self.deepest + 1])

    @property
    def path(self) -> tuple[int, ...]:
        """The index, level by level, of the element that would come next."""
        counts = [level.elements - level.elements_before_open_row for level in self._levels[1 : self.depth + 1]]
        return (*(count - 1 for count in counts[:-1]), *counts[-1:])

    def begin(self, numbers: int, columns: int) -> None:
        """Stand behind so many numbers, at least one: in a vector, or behind rows of ``columns`` if that is not 0."""
        self.depth, self.has_numbers = 1, True
        self.deepest = 2 if columns else 1
        rows = numbers // columns if columns else 0
        self._levels[1] = _Level(elements=rows or numbers)
        self._levels[2] = _Level(columns, rows, numbers, numbers - columns) if columns else _Level()

    def depths(self, opens: NDArray[np.bool_]) -> NDArray[np.int32]:
        """[b] int32: the depth after each bracket of a piece. ``opens`` [b] bool."""
        return self.depth + np.cumsum(opens * np.int8(2) - np.int8(1), dtype=np.int32)

    def first_misplaced(self, piece: Brackets) -> Misplaced:
        """The first bracket that opens an array among numbers or too deep, and the first number among arrays."""
        after = piece.depths
        depths = np.concatenate([np.array([self.depth], np.int32), after])
        deepest = np.maximum.accumulate(np.maximum(depths, self.deepest))
        behind_number = (piece.numbers_before > 0) | self.has_numbers
        brackets = (after > DEEPEST_LEVEL) | (behind_number & (deepest[1:] > deepest[:-1]))
        bounds = np.concatenate([[0], piece.numbers_before, [piece.numbers]])
        gaps = (depths < deepest) & (bounds[1:] > bounds[:-1])
        return Misplaced(
            int(brackets.argmax()) if brackets.any() else len(brackets),
            int(bounds[gaps.argmax()]) if gaps.any() else piece.numbers,
        )

    def advance(self, piece: Brackets) -> RaggedRow | None:
        """Read a piece in which nothing is misplaced. The first row of another length than row 0, if there is one."""
        after = piece.depths.astype(np.int8)
        deepest = max(self.deepest, int(after.max(initial=0)))
        ragged = [self._read_level(level, deepest, after, piece) for level in range(1, deepest + 1)]
        self.depth = int(after[-1]) if after.size else self.depth
        self.deepest = deepest
        self.has_numbers |= piece.numbers > 0
        return min((row for row in ragged if row), key=lambda row: row.bracket, default=None)

    def _read_level(self, number: int, deepest: int, after: NDArray[np.int8], piece: Brackets) -> RaggedRow | None:
        level = self._levels[number]
        opening = np.flatnonzero(piece.opens & (after == number))
        closing = np.flatnonzero(~piece.opens & (after == number - 1))
        if number == deepest:
            counts, total = piece.numbers_before, piece.numbers
        else:
            inner = piece.opens & (after == number + 1)
            counts, total = np.cumsum(inner, dtype=np.int32), int(np.count_nonzero(inner))
        begins = level.elements + counts[opening].astype(np.int64)
        if self.depth >= number:
            begins = np.concatenate([[level.elements_before_open_row], begins])
        lengths = level.elements + counts[closing].astype(np.int64) - begins[: len(closing)]
        if level.row_length < 0 and lengths.size:
            level.row_length = int(lengths[0])
        ragged = lengths != level.row_length
        first = int(ragged.argmax()) if ragged.any() else None
        row = level.rows + (first or 0)
        level.rows += len(lengths)
        level.elements += total
        level.elements_before_open_row = int(begins[-1]) if begins.size else level.elements_before_open_row
        if first is None:
            return None
        return RaggedRow(int(closing[first]), row, int(lengths[first]), level.row_length)
