"""The measurement over HTTP as a command: starts the servers, prints the cells, writes the JSON file and the plot."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from service.bench.http_run import Cell, HttpOptions, ScenarioResult, measure
from service.bench.http_scenarios import SCENARIOS
from service.bench.machine import Provenance, provenance
from service.bench.plot import plot_svg
from service.bench.screen import progress, write_line, write_table
from service.bench.servers import DRAIN, ECHO, SERVICE, plain_program, running

JSON_FILE = "http.json"
PLOT_FILE = "http.svg"
_NO_PLAIN = (
    "plain FastAPI is left out: tests/load/plain_fastapi.py comes with a checkout, not with the installed package"
)


def run_http(options: HttpOptions, output: Path, device: str | None) -> None:
    """Measure and write; raises as ``measure`` and ``running`` do, and then has told no ratio of that scenario."""
    origin = provenance()
    plain = plain_program()
    programs = [program for program in (SERVICE, plain, ECHO, DRAIN) if program is not None]
    titles = {program.name: program.title for program in programs}
    if plain is None:
        write_line(_NO_PLAIN)
    with (
        running(programs, {} if device is None else {"KV_PLAN_DEVICE": device}) as servers,
        progress(len(SCENARIOS) * len(options.concurrencies)) as bar,
    ):
        info = json.loads(servers[SERVICE.name].request("GET", "/info")[1])
        _write_head(origin, info, options)
        results = []
        for result in measure(servers, options, bar.step):
            _write_result(result, titles)
            results.append(result)
    output.mkdir(parents=True, exist_ok=True)
    told = {
        **asdict(origin),
        "kind": "http",
        "device": info["device"],
        "device_description": info["device_description"],
        "backend": info["backend"],
        "options": asdict(options),
        "servers": titles,
        "left_out": [] if plain else [_NO_PLAIN],
        "scenarios": [asdict(result) for result in results],
    }
    (output / JSON_FILE).write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
    (output / PLOT_FILE).write_text(plot_svg(results, titles, _hardware_line(origin, info)), encoding="utf-8")
    write_line(f"written: {output / JSON_FILE}, {output / PLOT_FILE}")


def _hardware_line(origin: Provenance, info: Mapping[str, object]) -> str:
    hardware = origin.hardware
    return (
        f"{hardware.cpu}, {hardware.usable_cores} cores; "
        f"plans on {info['device']} ({info['device_description']}), backend {info['backend']}"
    )


def _write_head(origin: Provenance, info: Mapping[str, object], options: HttpOptions) -> None:
    write_line(_hardware_line(origin, info))
    write_line(
        f"Medians of {options.rounds} rounds, the servers in turn, each round up to {options.requests} small requests "
        f"or {options.seconds:g} s. Every computed plan is the reference's."
    )
    write_line()


def _write_result(result: ScenarioResult, titles: Mapping[str, str]) -> None:
    if result.skipped:
        write_line(f"{result.title}: left out, {result.skipped}")
        write_line()
        return
    write_line(f"{result.title} ({result.body_bytes:,} bytes in, {result.answer_bytes:,} bytes out)")
    names = ("server", "at a time", "requests/s", "p50 ms", "p99 ms", "the service is", "generator busy")
    write_table(names, [_row(cell, titles) for cell in result.cells])
    _write_stages([cell for cell in result.cells if cell.stage_seconds])


def _row(cell: Cell, titles: Mapping[str, str]) -> Sequence[str]:
    return (
        titles[cell.server],
        str(cell.concurrency),
        f"{cell.requests_per_second:,.1f}",
        f"{cell.p50_seconds * 1e3:.2f}",
        f"{cell.p99_seconds * 1e3:.2f}",
        "" if cell.server == SERVICE.name else f"{cell.service_speedup:.2f} x as fast",
        f"{cell.generator_busy:.0%}",
    )


def _write_stages(cells: Sequence[Cell]) -> None:
    if not cells:
        return
    stages = list(cells[0].stage_seconds)
    write_table(
        ("stages of the service", "at a time", *(f"{stage} ms" for stage in stages)),
        [("", str(cell.concurrency), *(f"{cell.stage_seconds[s] * 1e3:.3f}" for s in stages)) for cell in cells],
    )
