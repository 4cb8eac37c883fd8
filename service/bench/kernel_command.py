"""The measurement of the kernels as a command: proves the plans, prints the cells, writes the JSON file."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import torch

from service.bench.batches import BatchShape
from service.bench.kernel_run import KernelOptions, KernelResults, Timer, measure_kernels, require_right_plan
from service.bench.kernel_scenarios import COMPARED
from service.bench.machine import provenance
from service.bench.screen import progress, write_line, write_table

JSON_FILE = "kernels.json"


def run_kernels(
    shapes: Sequence[BatchShape], device: torch.device, timer: Timer, options: KernelOptions, output: Path
) -> None:
    """Measure the scenarios and write; raises ``DifferentAnswer`` before anything is measured."""
    origin = provenance()
    write_line(f"{origin.hardware.cpu}; {', '.join(origin.hardware.gpus) or 'no GPU'}; plans on {device}")
    plans = {}
    with progress(len(shapes) + options.rounds) as bar:
        for shape in shapes:
            bar.step(f"proving {shape.name}")
            plans[shape] = require_right_plan(shape, device)
        write_line(f"{len(plans)} scenarios: every plan is the host backend's, and with short lengths the reference's")
        results = measure_kernels(plans, timer, options, bar.step)
    _write_cells(results)
    ratios = _ratios(results, shapes)
    for meaning, ratio in ratios.items():
        write_line(f"{ratio:.2f} x the time: {meaning}")
    output.mkdir(parents=True, exist_ok=True)
    told = {
        **asdict(origin),
        "kind": "kernels",
        "device": str(device),
        "options": asdict(options),
        "copy_bytes_per_second": results.copy_bytes_per_second,
        "cells": [asdict(cell) | {"share_of_copy": results.share_of_copy(cell)} for cell in results.cells],
        "ratios": ratios,
    }
    (output / JSON_FILE).write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
    write_line(f"written: {output / JSON_FILE}")


def _ratios(results: KernelResults, shapes: Sequence[BatchShape]) -> dict[str, float]:
    return {
        meaning: results.seconds(one) / results.seconds(other)
        for one, other, meaning in COMPARED
        if one in shapes and other in shapes
    }


def _write_cells(results: KernelResults) -> None:
    write_line(f"a copy moves {results.copy_bytes_per_second / 1e9:,.0f} GB/s, read and written")
    write_line()
    names = ("scenario", "requests", "entries", "replay us", "of the copy", "host us")
    rows = [
        (
            cell.name,
            f"{cell.bs:,}",
            f"{cell.entries:,}",
            f"{cell.replay_seconds * 1e6:.2f}",
            f"{results.share_of_copy(cell):.0%}",
            f"{cell.host_seconds * 1e6:.1f}",
        )
        for cell in results.cells
    ]
    write_table(names, rows)
