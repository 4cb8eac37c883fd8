"""What is written to a terminal: aligned tables, and progress with or without rich."""

import io
import sys

import pytest

from service.bench.screen import progress, write_table


class Terminal(io.StringIO):
    """A standard error that somebody watches."""

    def isatty(self) -> bool:
        """It is one."""
        return True


def test_a_table_is_aligned(capsys: pytest.CaptureFixture[str]) -> None:
    write_table(("name", "n"), [("a", "1,000"), ("long name", "7")])
    assert capsys.readouterr().out == "name           n\na          1,000\nlong name      7\n\n"


def test_without_a_terminal_each_tenth_is_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    with progress(40) as bar:
        for number in range(40):
            bar.step(f"work {number}")
    lines = capsys.readouterr().err.splitlines()
    assert lines == [f"{number}/40 work {number}" for number in range(0, 40, 4)]


def test_a_terminal_shows_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    with progress(4) as bar:
        bar.step("first work")
        bar.step("second work")
    assert "first work" in terminal.getvalue()
    assert "second work" in terminal.getvalue()
    assert "25%" in terminal.getvalue()


def test_a_terminal_without_rich_shows_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    for name in ("rich.console", "rich.progress"):
        monkeypatch.setitem(sys.modules, name, None)
    with progress(1) as bar:
        bar.step("work")
    assert terminal.getvalue() == "0/1 work\n"
