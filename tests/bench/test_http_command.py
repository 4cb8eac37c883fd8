"""What is printed of one scenario."""

import pytest

from service.bench.http_command import _write_result
from service.bench.http_run import Cell, ScenarioResult

TITLES = {"service": "the service", "plain": "plain FastAPI"}


def cell(server: str, stage_seconds: dict[str, float]) -> Cell:
    """A cell with round numbers."""
    return Cell("s", 16, server, 5, 100, 1234.5, 0.001, 0.0025, 3.5, 0.25, stage_seconds)


def test_a_scenario_that_was_left_out_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    _write_result(ScenarioResult("s", "a pool", "there is none"), TITLES)
    assert capsys.readouterr().out == "a pool: left out, there is none\n\n"


def test_a_cell_is_a_line_and_only_the_others_have_a_ratio(capsys: pytest.CaptureFixture[str]) -> None:
    cells = (cell("service", {"decode": 0.0001, "compute": 0.002}), cell("plain", {}))
    _write_result(ScenarioResult("s", "small", None, 1000, 20, cells), TITLES)
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines[0] == ["small", "(1,000", "bytes", "in,", "20", "bytes", "out)"]
    assert lines[2] == ["the", "service", "16", "1,234.5", "1.00", "2.50", "25%"]
    assert lines[3] == ["plain", "FastAPI", "16", "1,234.5", "1.00", "2.50", "3.50", "x", "as", "fast", "25%"]
    assert lines[5][-4:] == ["decode", "ms", "compute", "ms"]
    assert lines[6] == ["16", "0.100", "2.000"]


def test_without_stage_times_there_is_no_table_of_them(capsys: pytest.CaptureFixture[str]) -> None:
    _write_result(ScenarioResult("s", "small", None, 1, 1, (cell("service", {}),)), TITLES)
    assert "stages" not in capsys.readouterr().out
