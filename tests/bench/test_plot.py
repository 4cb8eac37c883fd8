"""The picture: well-formed, every cell on it where its numbers say, nothing outside."""

import re
from xml.etree import ElementTree

import pytest

from service.bench.http_run import Cell, ScenarioResult
from service.bench.plot import plot_svg

TITLES = {"service": "the service", "echo": "bare <echo>"}
SVG = "{http://www.w3.org/2000/svg}"


def cell(server: str, concurrency: int, per_second: float, p99_seconds: float = 0.02) -> Cell:
    """A cell with a median latency of 10 ms."""
    return Cell("s", concurrency, server, 1, 1, per_second, 0.01, p99_seconds, 1.0, 0.1, {})


def drawn(*results: ScenarioResult) -> ElementTree.Element:
    """The picture of the results."""
    return ElementTree.fromstring(plot_svg(results, TITLES, "a machine & more"))  # noqa: S314 - our own text


def texts(picture: ElementTree.Element) -> list[str]:
    """Every text on it."""
    return [element.text or "" for element in picture.iter(f"{SVG}text")]


def result(*cells: Cell) -> ScenarioResult:
    """One scenario."""
    return ScenarioResult("s", "a scenario", None, 1234, 56, cells)


def test_every_cell_is_on_it_with_its_numbers() -> None:
    picture = drawn(result(cell("service", 1, 1000), cell("echo", 1, 12.34), cell("service", 16, 100)))
    words = texts(picture)
    assert {
        "a scenario: 1,234 bytes in, 56 bytes out",
        "a machine & more; logarithmic axes",
        "1 at a time",
        "16 at a time",
    } <= set(words)
    assert words.count("the service") == 2
    assert words.count("bare <echo>") == 1
    assert {"1,000", "12.3", "100", "10.0 to 20.0"} <= set(words)
    assert len(list(picture.iter(f"{SVG}circle"))) == 6


def test_ten_times_as_much_is_one_step_of_the_grid_further_right() -> None:
    picture = drawn(result(*(cell("service", 1, 10.0**n) for n in (1, 2, 3))))
    first, second, third = [float(dot.attrib["cx"]) for dot in picture.iter(f"{SVG}circle")][::2]
    assert second - first == pytest.approx(third - second, abs=0.1)
    grid = sorted(
        {float(line.attrib["x1"]) for line in picture.iter(f"{SVG}line") if "stroke-width" not in line.attrib}
    )
    assert {first, second, third} <= set(grid)


@pytest.mark.parametrize("per_second", [1.0, 7.0, 10.0])
def test_equal_values_have_an_axis_too(per_second: float) -> None:
    picture = drawn(result(cell("service", 1, per_second, 0.01)))
    assert all(0 <= float(dot.attrib["cx"]) <= 1000 for dot in picture.iter(f"{SVG}circle"))


def test_what_was_left_out_takes_no_room() -> None:
    left_out = ScenarioResult("pool", "a pool", "there is none")
    one = result(cell("service", 1, 1000))
    assert texts(drawn(one, left_out)) == texts(drawn(one))
    height = int(drawn(one, left_out).attrib["height"])
    assert height == int(drawn(one).attrib["height"])
    assert max(float(place) for place in re.findall(r' y="([\d.]+)"', plot_svg([one], TITLES, ""))) <= height
