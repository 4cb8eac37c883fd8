"""Prints plans for people at a terminal. Computes nothing."""

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.table import Column, Table

from service.kernels.host_backend import Entries
from service.kernels.host_batch import Ints
from service.plan.planner import Plan

_MAX_ROWS = 200
"""More rows than this are counted, not printed."""


def print_plan(plan: Plan[Ints], console: Console) -> None:
    """One line about the plan, a table of its requests and a table of its verify entries."""
    sizes = plan.sizes
    state = "enabled" if sizes.enabled else f"disabled: the capacity is {sizes.verify_capacity}"
    console.print(f"{sizes.bs} requests, {sizes.verify_total} verify entries ({state})", highlight=False)
    _print_requests(plan, console)
    if plan.entries is not None and sizes.enabled:
        _print_entries(plan, plan.entries, console)


def _print_requests(plan: Plan[Ints], console: Console) -> None:
    rows = (
        (str(r), _range(plan.verify_offsets[r : r + 2]), _range(plan.write_offsets[r : r + 2]), str(seed))
        for r, seed in enumerate(plan.write_seed_slot_indices[:_MAX_ROWS].tolist())
    )
    _print_rows(("request", "verify entries", "write entries", "seed slot"), rows, plan.sizes.bs, console)


def _print_entries(plan: Plan[Ints], entries: Entries[Ints], console: Console) -> None:
    shown = min(plan.sizes.verify_total, _MAX_ROWS)
    owners = plan.verify_offsets.searchsorted(range(shown), side="right") - 1
    columns = (
        range(shown),
        owners.tolist(),
        entries.verify_expected_positions[:shown].tolist(),
        entries.verify_slot_indices[:shown].tolist(),
        entries.verify_prev_slot_indices[:shown].tolist(),
        entries.verify_expected_tokens[:shown].tolist(),
    )
    rows = (tuple(map(str, row)) for row in zip(*columns, strict=True))
    names = ("entry", "request", "position", "slot", "previous slot", "expected token")
    _print_rows(names, rows, plan.sizes.verify_total, console)


def _print_rows(names: tuple[str, ...], rows: Iterable[tuple[str, ...]], count: int, console: Console) -> None:
    table = Table(*(Column(name, justify="right") for name in names))
    for row in rows:
        table.add_row(*row)
    console.print(table)
    if count > _MAX_ROWS:
        console.print(f"and {count - _MAX_ROWS} more", highlight=False)


def _range(bounds: npt.NDArray[np.int64]) -> str:
    first, end = bounds.tolist()
    return f"{first}..{end - 1}" if end > first else "none"
