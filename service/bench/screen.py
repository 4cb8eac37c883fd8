"""Writes to a terminal: lines, tables and a progress bar, with or without rich."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol


class Progress(Protocol):
    """Something that is told what is going on."""

    def step(self, words: str) -> None:
        """One more piece of work begins; the words say which."""


def write_line(text: str = "") -> None:
    """One line on standard output."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def write_table(names: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Aligned columns, the first on the left and the others on the right, for a terminal or a text file."""
    table = [names, *rows]
    widths = [max(len(row[i]) for row in table) for i in range(len(names))]
    for row in table:
        cells = [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        write_line("  ".join([row[0].ljust(widths[0]), *cells]).rstrip())
    write_line()


@contextmanager
def progress(steps: int) -> Iterator[Progress]:
    """A progress bar on standard error of so many steps; lines where rich is not installed or nobody watches."""
    if not sys.stderr.isatty():
        yield _Lines(steps)
        return
    try:
        from rich.console import Console
        from rich.progress import Progress as RichProgress
    except ImportError:
        yield _Lines(steps)
        return
    # It draws between two measurements only: a thread that draws during one would take part in it.
    with RichProgress(console=Console(stderr=True), auto_refresh=False, transient=True) as bar:
        task = bar.add_task("", total=steps)

        def draw(completed: int, words: str) -> None:
            bar.update(task, completed=completed, description=words, refresh=True)

        yield _Bar(draw)


class _Bar:
    def __init__(self, draw: Callable[[int, str], None]) -> None:
        self._draw = draw
        self._begun = 0

    def step(self, words: str) -> None:
        """Draw the bar as far as it is done."""
        self._draw(self._begun, words)
        self._begun += 1


class _Lines:
    """One line for each tenth of the work."""

    def __init__(self, steps: int) -> None:
        self._steps = steps
        self._begun = 0

    def step(self, words: str) -> None:
        """Write the line if another tenth is done."""
        if self._begun * 10 // self._steps != (self._begun - 1) * 10 // self._steps:
            sys.stderr.write(f"{self._begun}/{self._steps} {words}\n")
        self._begun += 1
