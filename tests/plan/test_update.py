"""Updates of resident tables against a slow reference: which cells, what they become, and what they were."""

import random
from typing import Any

import pytest
import torch

from service.errors import Refusal
from service.kernels.backend import BackendName, Target, backend_named
from service.plan.tables import Tables, require_table
from service.plan.transfer import Workspace
from service.plan.update import (
    CellsBefore,
    CellsUpdate,
    RowsUpdate,
    TablesUpdate,
    apply_update,
    cells_before,
    judge_update,
)
from tests.kernels.harness import BACKENDS, device_of

TABLE, TOKENS, LUT = "req_to_token", "req_to_verify_expected_tokens", "full_to_swa_index_mapping"
SHAPES = [(0, 4), (1, 1), (3, 7), (5, 0), (9, 33), (40, 5), (300, 3)]
"""Segments and columns."""


def draw_rows(bs: int, columns: int, seed: int) -> RowsUpdate:
    """Segments of every length, empty ones and ones that run past the row's end among them, at any start or none."""
    rng = random.Random(seed)  # noqa: S311
    torch.manual_seed(seed)
    lens = [rng.choice([0, 1, columns, columns + 3, rng.randint(0, columns)]) for _ in range(bs)]
    starts = torch.tensor([rng.choice([0, columns, rng.randint(0, columns)]) for _ in range(bs)], dtype=torch.int64)
    return RowsUpdate(
        flat_in=torch.randint(-(2**31), 2**31, (sum(lens),)),
        offsets=torch.tensor([0, *lens]).cumsum(0),
        req_pool_indices=torch.randperm(bs + 4)[:bs],
        start_positions=starts if seed % 3 else None,
    )


def draw_tables(rows: int, columns: int, seed: int) -> Tables:
    """Tables of cells that all differ."""
    torch.manual_seed(seed)
    cells = torch.randperm(2 * rows * columns, dtype=torch.int32)
    return Tables(
        cells[: rows * columns].reshape(rows, columns).contiguous(),
        torch.randperm(2 * rows + 1),
        cells[rows * columns :].reshape(rows, columns).contiguous(),
    )


def draw_update(bs: int, columns: int, seed: int) -> TablesUpdate:
    """An update of one, two or all tables."""
    rows = {TABLE: draw_rows(bs, columns, seed), TOKENS: draw_rows(bs, columns, seed + 1)}
    count = bs // 2 + 1
    cells = CellsUpdate(torch.randperm(2 * (bs + 4) + 1)[:count], torch.randint(-(2**63), 2**63 - 1, (count,)))
    kept = [name for number, name in enumerate(rows) if seed % 4 != number]
    return TablesUpdate({name: rows[name] for name in kept}, None if seed % 5 == 4 else cells)


def slow_cells(rows: RowsUpdate, columns: int) -> list[tuple[int, int, int]]:
    """Row, column and token of every cell that is written, in the order of the segments."""
    bounds = rows.offsets.tolist()
    starts = [0] * len(bounds) if rows.start_positions is None else rows.start_positions.tolist()
    return [
        (row, starts[r] + i, int(rows.flat_in[bounds[r] + i]))
        for r, row in enumerate(rows.req_pool_indices.tolist())
        for i in range(bounds[r + 1] - bounds[r])
        if starts[r] + i < columns
    ]


def slow_update(update: TablesUpdate, tables: Tables) -> dict[str, list[Any]]:
    """What each table holds after the update, cell by cell."""
    after: dict[str, list[Any]] = {spec.name: tensor.tolist() for tensor, spec in tables.given()}
    for name, rows in update.rows.items():
        for row, column, token in slow_cells(rows, require_table(tables, name).shape[1]):
            after[name][row][column] = token
    if update.cells is not None:
        for index, value in zip(update.cells.indices.tolist(), update.cells.values.tolist(), strict=True):
            after[LUT][index] = value
    return after


def held(tables: Tables) -> dict[str, list[Any]]:
    return {spec.name: tensor.tolist() for tensor, spec in tables.given()}


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(("bs", "columns"), SHAPES)
def test_the_cells_of_segments_are_those_that_the_reference_writes(bs: int, columns: int, seed: int) -> None:
    rows = draw_rows(bs, columns, seed)
    cells = rows.cells(columns)
    assert cells.tolist() == [row * columns + column for row, column, _ in slow_cells(rows, columns)]
    assert cells.dtype.name == "int64"
    assert len(cells) == len(set(cells.tolist()))


def test_cells_of_tables_with_more_than_2_to_the_31_are_counted_in_64_bits() -> None:
    rows = RowsUpdate(torch.arange(3), torch.tensor([0, 3]), torch.tensor([2**20]), torch.tensor([2**20 - 2]))
    assert rows.cells(2**20).tolist() == [2**40 + 2**20 - 2, 2**40 + 2**20 - 1]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("bs", "columns"), SHAPES)
def test_an_update_writes_what_the_reference_writes_and_can_be_undone(
    bs: int, columns: int, seed: int, backend: BackendName, kernel_device: torch.device
) -> None:
    device = device_of(backend, kernel_device)
    given = draw_tables(bs + 4, columns, seed)
    tables, update = given.on(device), draw_update(bs, columns, seed)
    judge_update(update, tables)
    before = cells_before(update, tables)
    assert held(tables) == held(given)
    apply_update(update, tables, Workspace(Target(device, backend_named(backend))))
    assert held(tables) == slow_update(update, given)
    for cells in before:
        cells.restore()
    assert held(tables) == held(given)


@pytest.mark.parametrize("backend", BACKENDS)
def test_updates_that_follow_each_other_do_not_mix(backend: BackendName, kernel_device: torch.device) -> None:
    """All of them travel through the same memory, which grows and is overwritten."""
    device = device_of(backend, kernel_device)
    expected = draw_tables(44, 6, 0)
    tables, workspace = expected.on(device), Workspace(Target(device, backend_named(backend)))
    for seed in range(12):
        update = draw_update(40, 6, seed)
        apply_update(update, tables, workspace)
        after = slow_update(update, expected)
        expected = Tables(
            torch.tensor(after[TABLE], dtype=torch.int32),
            torch.tensor(after[LUT]),
            torch.tensor(after[TOKENS], dtype=torch.int32),
        )
    assert held(tables) == held(expected)


def test_cells_are_restored_in_their_own_table_only() -> None:
    table, other = torch.arange(6).reshape(2, 3), torch.arange(6).reshape(2, 3)
    before = CellsBefore(table, torch.tensor([5, 0]), torch.tensor([50, 40]))
    before.restore()
    assert table.tolist() == [[40, 1, 2], [3, 4, 50]]
    assert other.tolist() == [[0, 1, 2], [3, 4, 5]]


def test_how_much_there_is_to_do_counts_cells_and_segments() -> None:
    rows = RowsUpdate(torch.arange(3), torch.tensor([0, 3, 3]), torch.tensor([1, 2]))
    cells = CellsUpdate(torch.arange(4), torch.arange(4))
    assert TablesUpdate({}).elements == 0
    assert TablesUpdate({TABLE: rows}).elements == 5
    assert TablesUpdate({TABLE: rows, TOKENS: rows}, cells).elements == 14


@pytest.mark.parametrize(
    ("update", "message"),
    [
        (TablesUpdate({TOKENS: draw_rows(1, 2, 1)}), "the pool has no req_to_verify_expected_tokens"),
        (
            TablesUpdate({}, CellsUpdate(torch.tensor([0]), torch.tensor([0]))),
            "the pool has no full_to_swa_index_mapping",
        ),
    ],
)
def test_a_table_that_is_not_there_is_named_with_its_place(update: TablesUpdate, message: str) -> None:
    placed = TablesUpdate(update.rows, update.cells, ("scatter",))
    with pytest.raises(Refusal, match=message) as raised:
        judge_update(placed, Tables(torch.zeros((5, 2), dtype=torch.int32)))
    assert raised.value.loc == ("scatter", message.rsplit(" ", 1)[1])
