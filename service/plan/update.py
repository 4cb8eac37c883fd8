"""Updates tables that stay on a device, from vectors on the host: judged as a whole, written, undone if need be."""

from dataclasses import dataclass

import numpy as np
import torch

from service.errors import within
from service.kernels.host_batch import Ints
from service.kernels.operands import ScatterOperands
from service.plan.require import refuse_first, refuse_repeated, require_len, require_rank
from service.plan.scatter import validate_scatter_form, validate_scatter_values
from service.plan.tables import Tables, require_table
from service.plan.transfer import Workspace
from service.spec import EXPECTED_TOKENS, FULL_TO_SWA_INDEX_MAPPING, REQ_TO_TOKEN

_NO_HEAD = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class RowsUpdate:
    """Segments of tokens for rows of a table, as ``launch_scatter_req_token_ids_kernel`` takes them; CPU, int64."""

    flat_in: torch.Tensor
    offsets: torch.Tensor
    req_pool_indices: torch.Tensor
    start_positions: torch.Tensor | None = None

    def into(self, table: torch.Tensor) -> ScatterOperands:
        """The operands of the scatter into ``table``."""
        return ScatterOperands(self.flat_in, self.offsets, self.req_pool_indices, self.start_positions, table)

    def cells(self, columns: int) -> Ints:
        """[n] int64: the cells that are written, as indices into a flat table of ``columns``."""
        offsets = self.offsets.numpy()
        rows = self.req_pool_indices.numpy()
        starts = np.zeros_like(rows) if self.start_positions is None else self.start_positions.numpy()
        lens = np.minimum(np.diff(offsets), columns - starts)
        ends = np.cumsum(lens)
        within_segment = np.arange(int(ends[-1]) if ends.size else 0) - np.repeat(ends - lens, lens)
        cells: Ints = np.repeat(rows * columns + starts, lens) + within_segment
        return cells


@dataclass(frozen=True, slots=True)
class CellsUpdate:
    """New values for cells of the look-up table: ``indices`` [n] and ``values`` [n], CPU, int64."""

    indices: torch.Tensor
    values: torch.Tensor


@dataclass(frozen=True, slots=True)
class TablesUpdate:
    """What changes together: rows of tables and cells of the look-up table, by the names of the tables."""

    rows: dict[str, RowsUpdate]
    cells: CellsUpdate | None = None
    loc: tuple[str, ...] = ()
    """Where in a request it stands."""

    @property
    def is_empty(self) -> bool:
        """Whether no table is named."""
        return not self.rows and self.cells is None

    @property
    def writes_nothing(self) -> bool:
        """Whether no cell is named: then the tables stay as they are."""
        cells = 0 if self.cells is None else self.cells.indices.numel()
        return not cells and not any(rows.flat_in.numel() for rows in self.rows.values())

    @property
    def elements(self) -> int:
        """About how much there is to do: cells that are written, and segments that are cut."""
        cells = 0 if self.cells is None else self.cells.indices.numel()
        return cells + sum(rows.flat_in.numel() + rows.req_pool_indices.numel() for rows in self.rows.values())


@dataclass(frozen=True, slots=True)
class CellsBefore:
    """Cells of a flat table and what they held before an update; on the table's device."""

    table: torch.Tensor
    cells: torch.Tensor
    values: torch.Tensor

    def restore(self) -> None:
        """Write back what the cells held."""
        self.table.view(-1)[self.cells] = self.values


def judge_update(update: TablesUpdate, tables: Tables) -> None:
    """Accept an update whose every segment and cell lies inside the tables, once. Raises ``InvalidInput``.

    Of several faults the one in the table that comes first in input order is named.
    """
    for name in (REQ_TO_TOKEN.name, FULL_TO_SWA_INDEX_MAPPING.name, EXPECTED_TOKENS.name):
        with within(*update.loc, name):
            if name in update.rows:
                operands = update.rows[name].into(require_table(tables, name))
                validate_scatter_form(operands)
                validate_scatter_values(operands, name)
            elif name == FULL_TO_SWA_INDEX_MAPPING.name and update.cells is not None:
                _judge_cells(update.cells, require_table(tables, name).shape[0])


def apply_update(update: TablesUpdate, tables: Tables, workspace: Workspace) -> None:
    """Write a judged update into the tables, in place."""
    with workspace.entered():
        for name, rows in update.rows.items():
            workspace.target.backend.launch_scatter(_loaded(rows.into(require_table(tables, name)), workspace))
    if update.cells is not None:
        lut = require_table(tables, FULL_TO_SWA_INDEX_MAPPING.name)
        lut[update.cells.indices.to(lut.device)] = update.cells.values.to(lut.device)


def cells_before(update: TablesUpdate, tables: Tables) -> list[CellsBefore]:
    """What a judged update is about to overwrite."""
    named = [(require_table(tables, name), rows) for name, rows in update.rows.items()]
    written = [(table, torch.from_numpy(rows.cells(table.shape[1]))) for table, rows in named]
    if update.cells is not None:
        written.append((require_table(tables, FULL_TO_SWA_INDEX_MAPPING.name), update.cells.indices))
    return [
        CellsBefore(table, there, table.view(-1)[there])
        for table, cells in written
        for there in [cells.to(table.device)]
    ]


def _loaded(operands: ScatterOperands, workspace: Workspace) -> ScatterOperands:
    vectors = [operands.flat_in, operands.offsets, operands.req_pool_indices]
    starts = [] if operands.start_positions is None else [operands.start_positions]
    views, _ = workspace.load(vectors + starts, _NO_HEAD, 0)
    return ScatterOperands(views[0], views[1], views[2], views[3] if starts else None, operands.pool_out)


def _judge_cells(cells: CellsUpdate, length: int) -> None:
    require_rank(cells.indices, "indices", 1)
    require_len(cells.values, "values", cells.indices.shape[0])
    indices = cells.indices.numpy()
    outside = (indices < 0) | (indices >= length)
    refuse_first(outside, "cell-outside-lut", indices, length=length)
    refuse_repeated(indices, "duplicate-cell")
