"""Makes of the fields of a body what an operation is asked: which plans, over which tables, or which change."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from service.bodies import (
    COLUMNS,
    GROUPS,
    LUT_CELLS,
    POOL,
    POOL_VERSION,
    ROWS,
    SLOT_ROWS,
    STEP_PLAN,
    STEP_SCATTER,
    TOKEN_ROWS,
    USE_LUT,
    USE_TOKENS,
)
from service.errors import refusal, within
from service.kernels.host_batch import Ints, largest
from service.plan.inputs import PlanInputs
from service.plan.tables import Tables
from service.plan.update import CellsUpdate, RowsUpdate, TablesUpdate
from service.spec import (
    EXPECTED_TOKENS,
    FULL_TO_SWA_INDEX_MAPPING,
    POOL_NAME_PATTERN,
    PREFIX_LENS,
    REQ_POOL_INDICES,
    REQ_TO_TOKEN,
    SWA_WINDOW_SIZE,
    WRITE_REQ_CAPACITY,
)

Fields = Mapping[str, Any]
"""A decoded body, or an object in it."""

_TABLES = (REQ_TO_TOKEN.name, FULL_TO_SWA_INDEX_MAPPING.name, EXPECTED_TOKENS.name)
_NO_INPUTS = {*_TABLES, POOL.name, POOL_VERSION.name, USE_LUT.name, USE_TOKENS.name}
"""Fields of a plan's body that are not inputs of the plan as they are."""


@dataclass(frozen=True, slots=True)
class PlanQuery:
    """Plans of one batch: one, or one a group, over tables that came along or those of a pool."""

    pool: str | None
    pool_version: int | None
    plans: tuple[Fields, ...]
    """For each plan the fields that the body gives for it."""
    groups: tuple[str, ...] = ()
    """The names of the groups; none for a single plan."""
    loc: tuple[str, ...] = ()
    """Where in the body a single plan stands."""

    def inputs(self, tables: Tables | None = None) -> list[PlanInputs]:
        """The inputs of each plan, over resident ``tables`` or, without any, those of the body."""
        locs: list[tuple[str, ...]] = [(GROUPS.name, name) for name in self.groups] or [self.loc]
        # One tensor for each value, however many plans share it: the planner sends it to the device once.
        made: dict[int, Any] = {}
        plans = [
            {name: made.setdefault(id(value), _tensor(value)) for name, value in fields.items()}
            for fields in self.plans
        ]
        return [_inputs(fields, tables, loc) for fields, loc in zip(plans, locs, strict=True)]

    @property
    def most_entries(self) -> int:
        """What the plans do not exceed together, in entries, in requests and in write rows; found at a glance."""
        return sum(_most_entries(fields) for fields in self.plans)


@dataclass(frozen=True, slots=True)
class StepQuery:
    """What a step changes, and the plan that it then makes."""

    update: TablesUpdate
    plan: PlanQuery
    pool_version: int | None


@dataclass(frozen=True, slots=True)
class ScatterQuery:
    """What a scatter changes."""

    update: TablesUpdate
    pool_version: int | None


def plan_query(fields: Fields) -> PlanQuery:
    """What POST /plan is asked. Raises ``ServingRefusal`` if tables come both along and from a pool."""
    pool = fields.get(POOL.name)
    _require_one_source(fields, pool)
    return PlanQuery(pool, fields.get(POOL_VERSION.name), (fields,))


def groups_query(fields: Fields) -> PlanQuery:
    """What POST /plan/groups is asked: the fields of the batch and those of each group, together."""
    pool = fields.get(POOL.name)
    _require_one_source(fields, pool)
    groups: dict[str, Fields] = fields[GROUPS.name]
    shared = {name: value for name, value in fields.items() if name != GROUPS.name}
    for name, group in groups.items():
        if pool is not None and FULL_TO_SWA_INDEX_MAPPING.name in group:
            with within(GROUPS.name, name):
                raise refusal("pool-with-inline-tables", name=FULL_TO_SWA_INDEX_MAPPING.name)
    plans = tuple({**shared, **group} for group in groups.values())
    return PlanQuery(pool, fields.get(POOL_VERSION.name), plans, tuple(groups))


def tables_query(fields: Fields) -> tuple[Tables, int, int]:
    """The tables that PUT /pools/{pool} is given, and the rows and columns that they shall have at least."""
    tables = Tables(**{name: _tensor(fields[name]) for name in _TABLES if name in fields}).together()
    for spec in (ROWS, COLUMNS):
        if fields.get(spec.name, 0) < 0:
            raise refusal("below-minimum", name=spec.name, minimum=spec.minimum, value=fields[spec.name])
    tables.validate()
    return tables, fields.get(ROWS.name, 0), fields.get(COLUMNS.name, 0)


def scatter_query(fields: Fields) -> ScatterQuery:
    """What POST /pools/{pool}/scatter is asked. Raises ``ServingRefusal`` if that is nothing."""
    update = _tables_update(fields)
    if update.is_empty:
        raise refusal("nothing-to-scatter")
    return ScatterQuery(update, fields.get(POOL_VERSION.name))


def step_query(fields: Fields) -> StepQuery:
    """What POST /pools/{pool}/step is asked."""
    plan = PlanQuery(None, None, (fields[STEP_PLAN.name],), loc=(STEP_PLAN.name,))
    update = _tables_update(fields.get(STEP_SCATTER.name, {}), (STEP_SCATTER.name,))
    return StepQuery(update, plan, fields.get(POOL_VERSION.name))


def require_pool_name(name: str) -> None:
    """Accept up to 64 letters, digits, dots, underscores and hyphens that begin with a letter or digit."""
    if not re.fullmatch(POOL_NAME_PATTERN, name):
        raise refusal("pool-name-invalid")


def _require_one_source(fields: Fields, pool: str | None) -> None:
    if pool is None:
        if POOL_VERSION.name in fields:
            raise refusal("requires-pool", name=POOL_VERSION.name)
        if REQ_TO_TOKEN.name not in fields:
            raise refusal("missing-field", name=REQ_TO_TOKEN.name)
        return
    require_pool_name(pool)
    for name in _TABLES:
        if name in fields:
            raise refusal("pool-with-inline-tables", name=name)


def _inputs(fields: Fields, tables: Tables | None, loc: tuple[str, ...]) -> PlanInputs:
    found = Tables(**{name: fields[name] for name in _TABLES if name in fields}) if tables is None else tables
    wanted = found.without(lut=not fields.get(USE_LUT.name, True), tokens=not fields.get(USE_TOKENS.name, True))
    used = wanted.together()
    others = {name: value for name, value in fields.items() if name not in _NO_INPUTS}
    return PlanInputs(
        **others,
        req_to_token=used.req_to_token,
        full_to_swa_index_mapping=used.full_to_swa_index_mapping,
        req_to_verify_expected_tokens=used.req_to_verify_expected_tokens,
        resident=tables is not None or used.req_to_token.device.type != "cpu",
        loc=loc,
    )


def _tensor(value: Any) -> Any:
    return torch.from_numpy(value) if isinstance(value, np.ndarray) else value


def _most_entries(fields: Fields) -> int:
    prefix_lens: Ints = fields[PREFIX_LENS.name]
    longest = largest(prefix_lens.reshape(-1)) if prefix_lens.size else 0
    window: int = fields.get(SWA_WINDOW_SIZE.name, 0)
    requests: int = fields[REQ_POOL_INDICES.name].size
    write_rows: int = fields.get(WRITE_REQ_CAPACITY.name, 0)
    return requests * max(min(longest, window) if window > 0 else longest, 1) + write_rows


def _tables_update(fields: Fields, loc: tuple[str, ...] = ()) -> TablesUpdate:
    rows = {field.name: _rows_update(fields[field.name]) for field in (SLOT_ROWS, TOKEN_ROWS) if field.name in fields}
    cells = fields.get(LUT_CELLS.name)
    changed = None if cells is None else CellsUpdate(_tensor(cells["indices"]), _tensor(cells["values"]))
    return TablesUpdate(rows, changed, loc)


def _rows_update(fields: Fields) -> RowsUpdate:
    # Tokens were judged as the int32 that the table holds; the scatter takes them as int64.
    return RowsUpdate(**{name: _tensor(value.astype(np.int64, copy=False)) for name, value in fields.items()})
