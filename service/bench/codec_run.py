"""Measures the codecs: equality first, then rounds that take the paths in turn."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np
import torch

from service.bench.codec_paths import CUDA, DECODE_PATHS, ENCODE_PATHS, Arrays, body_of, plan_of
from service.bench.equality import DifferentAnswer
from service.bench.machine import has_cuda, is_installed

_ROUND_SECONDS = 0.05
"""A path is run over and over for about so long in each round."""


@dataclass(frozen=True, slots=True)
class CodecOptions:
    """How much is measured: rows and columns of tables, verify entries of plans, rounds that medians are taken of."""

    tables: tuple[tuple[int, int], ...]
    entries: tuple[int, ...]
    rounds: int


@dataclass(frozen=True, slots=True)
class CodecCell:
    """What one path took for one text: the median of its rounds."""

    direction: str
    text_bytes: int
    path: str
    seconds: float
    speedup: float
    """Time of the first path over this one's, round by round; the median."""

    @property
    def bytes_per_second(self) -> float:
        """Text read or written in a second."""
        return self.text_bytes / self.seconds


def absent_paths() -> dict[str, list[str]]:
    """The paths that cannot run here, with the packages that they lack."""
    lacking = {path.name: _lacking(path.needs) for path in (*DECODE_PATHS, *ENCODE_PATHS)}
    return {name: packages for name, packages in lacking.items() if packages}


def measure_codecs(options: CodecOptions, begin: Callable[[str], None]) -> Iterator[list[CodecCell]]:
    """The cells of each text, decoding before encoding; ``begin`` is told of every text.

    Raises ``DifferentAnswer`` before a text is measured if a path reads or writes it differently.
    """
    for rows, cols in options.tables:
        begin(f"decoding a table of {rows} x {cols}")
        body, specs, arrays = body_of(rows, cols)
        decoders = {path.name: path for path in DECODE_PATHS if not _lacking(path.needs)}
        for name, decoder in decoders.items():
            _require_arrays(f"{name}, {rows} x {cols}", decoder.run(body, specs), arrays)
        decodes = {name: _bound(decoder.run, body, specs) for name, decoder in decoders.items()}
        yield _cells("decode", len(body), decodes, options.rounds)
    for entries in options.entries:
        begin(f"encoding {entries} entries")
        plan = plan_of(entries)
        encoders = {path.name: path for path in ENCODE_PATHS if not _lacking(path.needs)}
        text = ENCODE_PATHS[0].run(plan)
        for name, encoder in encoders.items():
            if encoder.run(encoder.prepare(plan)) != text:
                raise DifferentAnswer(f"{name}, {entries} entries: not the text of {ENCODE_PATHS[0].name}")
        encodes = {name: _bound(encoder.run, encoder.prepare(plan)) for name, encoder in encoders.items()}
        yield _cells("encode", len(text), encodes, options.rounds)


def _require_arrays(who: str, have: Mapping[str, object], want: Arrays) -> None:
    for name, array in want.items():
        decoded = have.get(name)
        if isinstance(decoded, torch.Tensor):
            decoded = decoded.numpy(force=True)
        if not isinstance(decoded, np.ndarray) or decoded.dtype != array.dtype or not np.array_equal(decoded, array):
            raise DifferentAnswer(f"{who}: {name} is not what the text says")


def _bound(run: Callable[..., object], *arguments: object) -> Callable[[], object]:
    return lambda: run(*arguments)


def _cells(direction: str, text_bytes: int, works: Mapping[str, Callable[[], object]], rounds: int) -> list[CodecCell]:
    measured: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(rounds):
        for name, work in works.items():
            measured[name].append(_seconds(work))
    first = next(iter(measured.values()))
    return [
        CodecCell(direction, text_bytes, name, median(seconds), _median_ratio(first, seconds))
        for name, seconds in measured.items()
    ]


def _seconds(work: Callable[[], object]) -> float:
    """How long the work takes, on average over about ``_ROUND_SECONDS``."""
    began = time.perf_counter()
    count, elapsed = 0, 0.0
    while elapsed < _ROUND_SECONDS:
        work()
        count += 1
        elapsed = time.perf_counter() - began
    return elapsed / count


def _median_ratio(first: Sequence[float], other: Sequence[float]) -> float:
    return median(a / b for a, b in zip(first, other, strict=True))


def _lacking(packages: Sequence[str]) -> list[str]:
    return [package for package in packages if not (has_cuda() if package == CUDA else is_installed(package))]
