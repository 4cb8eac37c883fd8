"""The measurement of the codecs as a command: prints the cells, writes the JSON file."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from service.bench.codec_run import CodecCell, CodecOptions, absent_paths, measure_codecs
from service.bench.machine import provenance
from service.bench.screen import progress, write_line, write_table

JSON_FILE = "codecs.json"


def run_codecs(options: CodecOptions, output: Path) -> None:
    """Measure and write; raises ``DifferentAnswer`` before the numbers of a text that a path gets wrong."""
    origin = provenance()
    write_line(f"{origin.hardware.cpu}; medians of {options.rounds} rounds, the paths in turn, one thread")
    absent = absent_paths()
    for name, packages in absent.items():
        write_line(f"absent: {name} ({', '.join(packages)} is missing)")
    write_line()
    cells: list[CodecCell] = []
    with progress(len(options.tables) + len(options.entries)) as bar:
        for measured in measure_codecs(options, bar.step):
            _write_cells(measured)
            cells += measured
    output.mkdir(parents=True, exist_ok=True)
    told = {
        **asdict(origin),
        "kind": "codecs",
        "options": asdict(options),
        "absent": absent,
        "cells": [asdict(cell) | {"bytes_per_second": cell.bytes_per_second} for cell in cells],
    }
    (output / JSON_FILE).write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
    write_line(f"written: {output / JSON_FILE}")


def _write_cells(cells: Sequence[CodecCell]) -> None:
    names = (f"{cells[0].direction} {cells[0].text_bytes:,} bytes", "ms", "MB/s", "as fast as the first")
    write_table(
        names,
        [
            (
                cell.path,
                f"{cell.seconds * 1e3:.3f}",
                f"{cell.bytes_per_second / 1e6:,.1f}",
                f"{cell.speedup:.2f} x",
            )
            for cell in cells
        ],
    )
