"""Draws the cells of a measurement over HTTP as an SVG picture: one panel a scenario, one line a server."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from service.bench.http_run import Cell, ScenarioResult

_WIDTH = 1000
_LINE_HEIGHT = 20
_GROUP_GAP = 10
_PANEL_HEAD = 62
_PANEL_FOOT = 30
_TITLE_HEIGHT = 64
_COLORS = {"service": "#00755c", "plain": "#c1440e", "echo": "#6b7785", "drain": "#a3acb7"}
_GRID_COLOR = "#e3e6ea"
_QUIET_COLOR = "#5c6670"


@dataclass(frozen=True, slots=True)
class _Axis:
    """A logarithmic axis over whole decades, from ``left`` to ``right`` on the picture."""

    words: str
    left: int
    right: int
    first_decade: int
    last_decade: int

    def place(self, value: float) -> float:
        """Where a value is drawn."""
        share = (math.log10(value) - self.first_decade) / (self.last_decade - self.first_decade)
        return self.left + share * (self.right - self.left)


def plot_svg(results: Sequence[ScenarioResult], titles: Mapping[str, str], subtitle: str) -> str:
    """The picture; scenarios that were left out are not on it. ``titles`` are those of the servers, by name."""
    parts = [
        _text(20, 28, "Requests over loopback HTTP", size=18, weight="bold"),
        _text(20, 48, f"{subtitle}; logarithmic axes", color=_QUIET_COLOR),
    ]
    y = _TITLE_HEIGHT
    for result in results:
        if result.cells:
            panel, y = _panel(result, titles, y)
            parts += panel
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {y}" width="{_WIDTH}" height="{y}" '
    head += 'font-family="Helvetica, Arial, sans-serif" font-size="12">'
    return "\n".join([head, '<rect width="100%" height="100%" fill="white"/>', *parts, "</svg>"]) + "\n"


def _panel(result: ScenarioResult, titles: Mapping[str, str], top: int) -> tuple[list[str], int]:
    """The parts of one scenario, and where the next one begins."""
    cells = result.cells
    throughput = _axis("requests per second", 230, 520, [cell.requests_per_second for cell in cells])
    latencies = [seconds * 1e3 for cell in cells for seconds in (cell.p50_seconds, cell.p99_seconds)]
    latency = _axis("latency in ms: p50 (dot) to p99 (bar)", 620, 880, latencies)
    title = f"{result.title}: {result.body_bytes:,} bytes in, {result.answer_bytes:,} bytes out"
    parts = [_text(20, top + 24, title, size=14, weight="bold")]
    lines: list[str] = []
    y = top + _PANEL_HEAD
    previous = None
    for cell in cells:
        if cell.concurrency != previous:
            y += _GROUP_GAP if previous is not None else 0
            lines.append(_text(20, y + 4, f"{cell.concurrency} at a time", weight="bold"))
            previous = cell.concurrency
        lines += _line(cell, titles[cell.server], (throughput, latency), y)
        y += _LINE_HEIGHT
    for axis in (throughput, latency):
        parts += _grid(axis, top + _PANEL_HEAD - 14, y - 8)
    return parts + lines, y + _PANEL_FOOT


def _line(cell: Cell, title: str, axes: tuple[_Axis, _Axis], y: int) -> list[str]:
    """One server at one concurrency: its name, its throughput, its latency."""
    throughput, latency = axes
    color = _COLORS[cell.server]
    weight = "bold" if cell.server == "service" else "normal"
    at = throughput.place(cell.requests_per_second)
    first, last = latency.place(cell.p50_seconds * 1e3), latency.place(cell.p99_seconds * 1e3)
    return [
        _text(215, y + 4, title, color=color, weight=weight, anchor="end"),
        f'<circle cx="{at:.1f}" cy="{y}" r="5" fill="{color}"/>',
        _text(at + 9, y + 4, _short(cell.requests_per_second), color=color, weight=weight),
        f'<line x1="{first:.1f}" x2="{last:.1f}" y1="{y}" y2="{y}" stroke="{color}" stroke-width="4"/>',
        f'<circle cx="{first:.1f}" cy="{y}" r="5" fill="{color}"/>',
        _text(last + 9, y + 4, f"{_short(cell.p50_seconds * 1e3)} to {_short(cell.p99_seconds * 1e3)}", color=color),
    ]


def _axis(words: str, left: int, right: int, values: Sequence[float]) -> _Axis:
    first = math.floor(math.log10(min(values)))
    return _Axis(words, left, right, first, max(math.ceil(math.log10(max(values))), first + 1))


def _grid(axis: _Axis, top: int, bottom: int) -> list[str]:
    parts = [_text(axis.left, top - 8, axis.words, color=_QUIET_COLOR)]
    for decade in range(axis.first_decade, axis.last_decade + 1):
        x = axis.place(10.0**decade)
        parts.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{top}" y2="{bottom}" stroke="{_GRID_COLOR}"/>')
        parts.append(_text(x, bottom + 13, f"{10.0**decade:,g}", color=_QUIET_COLOR, anchor="middle"))
    return parts


def _short(value: float) -> str:
    """A number with about three digits.

    >>> _short(1234.5), _short(12.34), _short(0.1234)
    ('1,234', '12.3', '0.12')
    """
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def _text(x: float, y: float, words: str, **look: str | int) -> str:
    """Text at a place; ``look`` may give color, size, weight and anchor."""
    names = {"color": "fill", "size": "font-size", "weight": "font-weight", "anchor": "text-anchor"}
    attributes = "".join(f' {names[name]}="{value}"' for name, value in look.items())
    return f'<text x="{x:.1f}" y="{y:.1f}"{attributes}>{escape(words)}</text>'
