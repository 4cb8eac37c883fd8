"""Owns what each kind of request does on the device: plans, groups of plans, and changes of pools. Knows no HTTP."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import orjson
import torch

from service.bodies import GROUPS_BODY, PLAN_BODY, POOL_BODY, SCATTER_BODY, STEP_BODY
from service.errors import refusal
from service.plan.inputs import PlanInputs
from service.plan.planner import Plan
from service.plan.tables import Tables
from service.runtime.computer import PlanLimits
from service.runtime.engine import Operation
from service.runtime.plan_codec import answer_pieces, plan_fields
from service.runtime.pools import Pool, PoolStore, Precondition
from service.runtime.queries import (
    PlanQuery,
    ScatterQuery,
    StepQuery,
    groups_query,
    plan_query,
    scatter_query,
    step_query,
    tables_query,
)
from service.runtime.quick_plans import quick_plan
from service.wire.json_answer import encode_json

Compute = Callable[[Sequence[PlanInputs], bool], list[Plan[Any]]]
"""From inputs, and whether entries are wanted, to the plan of each. Runs on the device thread."""

PutQuery = tuple[Tables, int, int]
"""Tables, and the rows and columns that they shall have at least."""

_QUICK_ENTRIES = 8192
"""Plans of at most so many verify entries are computed where they are, if that needs no device."""


@dataclass(frozen=True, slots=True)
class Planned:
    """The fields of the plans of one request, by group if it has groups."""

    plans: list[dict[str, object]]
    groups: tuple[str, ...] = ()
    pool_version: int | None = None
    """Version of the pool that they were made over, if any."""
    elements: int = 0
    """About how many numbers there are to encode."""
    printed: memoryview | None = None
    """The answer, if it was printed on the device."""


@dataclass(frozen=True, slots=True)
class Stored:
    """A pool after a change, and whether the change made it."""

    pool: Pool
    created: bool = False


@dataclass(frozen=True, slots=True)
class Stepped:
    """A pool after a change, and the plan that was made over it then."""

    pool: Pool
    planned: Planned


@dataclass(frozen=True, slots=True)
class Operations:
    """The operations of one process: how it computes, where its pools are, and what its answers are signed with."""

    compute: Compute
    pools: PoolStore
    limits: PlanLimits
    signature: Mapping[str, str]
    """Device and backend, as every answer carries them."""
    quick: bool
    """Whether plans need no device, so that small ones need no other thread."""
    workers: int
    """Processes of the service. Pools are of one process; with several, a connection may reach any of them."""

    def require_one_worker(self) -> None:
        """Accept a service that can have pools."""
        if self.workers > 1:
            raise refusal("pools-need-one-worker", workers=self.workers)

    def plan(self, *, with_entries: bool) -> Operation[PlanQuery, Planned]:
        """POST /plan and /plan/offsets."""
        return self._planning(PLAN_BODY, plan_query, with_entries)

    def groups(self) -> Operation[PlanQuery, Planned]:
        """POST /plan/groups."""
        return self._planning(GROUPS_BODY, groups_query, with_entries=True)

    def step(self, name: str, precondition: Precondition) -> Operation[StepQuery, Stepped]:
        """POST /pools/{name}/step."""

        def run(query: StepQuery) -> Stepped:
            return Stepped(
                *self.pools.change(
                    name,
                    query.update,
                    precondition.at(query.pool_version),
                    lambda pool: self._planned(query.plan, pool, with_entries=True),
                )
            )

        return Operation(
            fields=STEP_BODY,
            query=step_query,
            run=run,
            encode=lambda stepped: self._encode_plans(stepped.planned),
            elements=lambda stepped: stepped.planned.elements,
            is_quick=lambda query: self._is_quick(query.plan) and query.update.elements <= _QUICK_ENTRIES,
        )

    def scatter(self, name: str, precondition: Precondition) -> Operation[ScatterQuery, Stored]:
        """POST /pools/{name}/scatter."""

        def run(query: ScatterQuery) -> Stored:
            pool, _ = self.pools.change(name, query.update, precondition.at(query.pool_version), lambda _: None)
            return Stored(pool)

        return Operation(
            fields=SCATTER_BODY,
            query=scatter_query,
            run=run,
            encode=lambda stored: encode_pool(stored.pool),
            elements=lambda _: 0,
            is_quick=lambda query: self.quick and query.update.elements <= _QUICK_ENTRIES,
        )

    def put(self, name: str, precondition: Precondition) -> Operation[PutQuery, Stored]:
        """PUT /pools/{name}."""

        def query(fields: Mapping[str, Any]) -> PutQuery:
            tables, rows, columns = tables_query(fields)
            for tensor, spec in tables.given():
                self.limits.require_table(spec.name, _cells(tensor.shape, rows, columns))
            return tables, rows, columns

        def run(query: PutQuery) -> Stored:
            # Room is made here: a small body, which is decoded on the event loop, can ask for much of it.
            tables, rows, columns = query
            return Stored(*self.pools.put(name, tables.widened(rows, columns), precondition))

        return Operation(
            fields=POOL_BODY,
            query=query,
            run=run,
            encode=lambda stored: encode_pool(stored.pool),
            elements=lambda _: 0,
            is_quick=lambda _: False,
        )

    def _planning(
        self, fields: Sequence[Any], query: Callable[[Mapping[str, Any]], PlanQuery], with_entries: bool
    ) -> Operation[PlanQuery, Planned]:
        def run(query: PlanQuery) -> Planned:
            if query.pool is None:
                return self._planned(query, None, with_entries=with_entries)
            self.require_one_worker()
            pool = self.pools.use(query.pool, Precondition(version=query.pool_version))
            return self._planned(query, pool, with_entries=with_entries)

        return Operation(
            fields=fields,
            query=query,
            run=run,
            encode=self._encode_plans,
            elements=lambda planned: planned.elements,
            is_quick=self._is_quick,
        )

    def _planned(self, query: PlanQuery, pool: Pool | None, *, with_entries: bool) -> Planned:
        tables, version, on_host = (None, None, None) if pool is None else (pool.tables, pool.version, pool.on_host)
        quick = quick_plan(query, on_host, self.limits, with_entries=with_entries) if self.quick else None
        if quick is not None:
            return Planned([quick], pool_version=version)
        plans = self.compute(query.inputs(tables), with_entries)
        fields = list(map(plan_fields, plans))
        if any(isinstance(plan.verify_offsets, torch.Tensor) for plan in plans):
            return self._printed(Planned(fields, query.groups, version))
        return Planned(fields, query.groups, version, sum(map(_elements, plans)))

    def _printed(self, planned: Planned) -> Planned:
        from service.runtime.answer_printer import print_answer  # where Triton is missing nobody gets here

        pieces = answer_pieces(planned.plans, planned.groups, self._signed(planned))
        with self.pools.workspace.entered():
            return Planned([], printed=print_answer(list(pieces)), pool_version=planned.pool_version)

    def _is_quick(self, query: PlanQuery) -> bool:
        return self.quick and query.most_entries <= _QUICK_ENTRIES

    def _encode_plans(self, planned: Planned) -> bytes | memoryview:
        if planned.printed is not None:
            return planned.printed
        signed = self._signed(planned)
        if not planned.groups:
            return encode_json(planned.plans[0] | signed)
        return b"".join(cast("Iterator[bytes]", answer_pieces(planned.plans, planned.groups, signed)))

    def _signed(self, planned: Planned) -> dict[str, object]:
        version = {} if planned.pool_version is None else {"pool_version": planned.pool_version}
        return {**self.signature, **version}


def _cells(shape: Sequence[int], rows: int, columns: int) -> int:
    """Cells of a table of ``shape``, widened. An axis of none counts as one: the other is no less of a length then."""
    if len(shape) == 1:
        return shape[0]
    return max(shape[0], rows, 1) * max(shape[1], columns, 1)


def encode_pool(pool: Pool) -> bytes:
    """What is told about a pool, as JSON."""
    return orjson.dumps(pool_fields(pool))


def pool_fields(pool: Pool) -> dict[str, object]:
    """What is told about a pool: its name, version and size, and the tables that it has."""
    return {
        "pool": pool.name,
        "version": pool.version,
        "bytes": pool.tables.resident_bytes,
        "tables": [
            {"name": spec.name, "shape": list(tensor.shape), "dtype": spec.dtype, "bytes": tensor.nbytes}
            for tensor, spec in pool.tables.given()
        ],
    }


def _elements(plan: Plan[Any]) -> int:
    entries = 0 if plan.entries is None else 4 * plan.entries.verify_slot_indices.shape[0]
    return entries + 2 * plan.sizes.bs + plan.sizes.write_req_capacity
