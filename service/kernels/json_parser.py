"""Launches the kernels that read the text of one array of integers. Knows no field and no body.

They accept only what is plain: numbers apart by commas, each with at most one space behind it, in one or two levels.
That a text is not read says nothing about it.
"""

from dataclasses import dataclass
from typing import NamedTuple, cast

import torch

from service.kernels._json_parse_kernel import _quotes_kernel, _read_kernel, _sum_kernel, _survey_kernel
from service.kernels._launcher import Launcher

WORD_BYTES = 4
_MOST_BYTES = 2**30
"""Longer texts are not read: positions in them are computed in 32 bits."""
_SUM_BLOCK = 4096
_READ_LANES = 256
_DIGITS = {torch.int32: 10, torch.int64: 19}
"""Digits of the longest number."""


class QuotesConstants(NamedTuple):
    """Constants of ``_quotes_kernel``."""

    BLOCK: int


class SurveyConstants(NamedTuple):
    """Constants of ``_survey_kernel``."""

    BLOCK: int


class SumConstants(NamedTuple):
    """Constants of ``_sum_kernel``."""

    BLOCK: int = _SUM_BLOCK


class ReadConstants(NamedTuple):
    """Constants of ``_read_kernel``."""

    DIGITS: int
    BLOCK: int
    LANES: int = _READ_LANES


_quotes = Launcher(_quotes_kernel)
_surveys = Launcher(_survey_kernel)
_sums = Launcher(_sum_kernel)
_reads = Launcher(_read_kernel)


@dataclass(frozen=True, slots=True)
class Survey:
    """A text in which no byte stands wrong: how many numbers it has, how many its first row, and where they end.

    Whether they fit a dtype, and whether all rows have the length of the first, is still open.
    """

    words: torch.Tensor
    is_table: bool
    numbers: int
    columns: int
    tile_bytes: int
    ends: torch.Tensor
    counts: torch.Tensor
    bases: torch.Tensor
    summary: torch.Tensor

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the array, if it is rectangular."""
        return (self.numbers // self.columns, self.columns) if self.is_table else (self.numbers,)


def find_quotes(words: torch.Tensor, num_bytes: int, tile_bytes: int, most: int) -> torch.Tensor:
    """[1 + most] int64 on the device: how many quotes the bytes have, then where those are, in no order; enqueued only.

    ``words`` int32 are ``num_bytes`` bytes. Of more than ``most`` quotes, some have no place and others any.
    """
    device = words.device
    found = torch.zeros(1 + most, dtype=torch.int64, device=device)
    launch = (words, found), (num_bytes, most)
    constants = QuotesConstants(tile_bytes)
    variant = _quotes.variant(device, constants) or _quotes.compile(device, *launch, [constants])
    variant.launch(-(-num_bytes // tile_bytes), *launch)
    return found


def survey_array(words: torch.Tensor, start: int, stop: int, *, is_table: bool, tile_bytes: int) -> Survey | None:
    """What is found in the text of an array, None if it is not plain, or surely ragged; waits for the device.

    ``words`` int32 are bytes, of which [start, stop) are the text. It is taken to begin with ``[[`` if it ``is_table``.
    A program judges ``tile_bytes``, a power of 2 from 16 on. The device must be the current one.
    """
    if not 0 < stop - start <= _MOST_BYTES:
        return None
    words = words[start // WORD_BYTES : -(-stop // WORD_BYTES)]
    start, stop = start % WORD_BYTES, stop - start // WORD_BYTES * WORD_BYTES
    device = words.device
    tiles = -(-stop // tile_bytes)
    ends = torch.empty(tiles * (tile_bytes // 2), dtype=torch.int16, device=device)
    counts, first_rows = torch.empty((2, tiles), dtype=torch.int32, device=device)
    sums = torch.empty(tiles + 4, dtype=torch.int64, device=device)
    bases, summary = sums[:tiles], sums[tiles:]
    found = (words, ends, counts, first_rows), (start, stop, int(is_table))
    surveys = SurveyConstants(tile_bytes)
    (_surveys.variant(device, surveys) or _surveys.compile(device, *found, [surveys])).launch(tiles, *found)
    summed = (counts, first_rows, bases, summary), (tiles,)
    (_sums.variant(device, SumConstants()) or _sums.compile(device, *summed, [SumConstants()])).launch(1, *summed)
    faulty, numbers, columns, _ = summary.tolist()
    if faulty or numbers % columns:
        return None
    return Survey(words, is_table, numbers, columns, tile_bytes, ends, counts, bases, summary)


def read_integers(survey: Survey, integers: torch.Tensor) -> bool:
    """Fill ``integers`` with the numbers, true if all of them fit its dtype and the rows have one length; waits.

    ``integers`` [numbers] is contiguous and int32 or int64. When false is returned, its content is undefined.
    """
    pointers = (survey.words.view(torch.uint8), survey.ends, survey.counts, survey.bases, survey.summary, integers)
    sizes = (survey.columns, survey.numbers)
    device = integers.device
    constants = ReadConstants(_DIGITS[integers.dtype], survey.tile_bytes)
    variant = _reads.variant(device, constants) or _reads.compile(device, pointers, sizes, [constants])
    variant.launch(survey.counts.shape[0], pointers, sizes)
    return survey.summary[3].item() == 0


def warm_up(device: torch.device, tile_bytes: int) -> None:
    """Compile all that reading any text on ``device`` in such tiles needs; it must be the current one."""
    text = torch.tensor(list(b"[0] "), dtype=torch.uint8, device=device)
    find_quotes(text.view(torch.int32), 4, tile_bytes, 1)
    for dtype in _DIGITS:
        survey = survey_array(text.view(torch.int32), 0, 3, is_table=False, tile_bytes=tile_bytes)
        read_integers(cast(Survey, survey), torch.empty(1, dtype=dtype, device=device))
