"""Owns what each kind of request does on the device: plans, groups of plans, and changes of pools. Knows no HTTP."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from service.bodies import GROUPS_BODY, PLAN_BODY, POOL_BODY, SCATTER_BODY, STEP_BODY
from service.errors import refusal
from service.plan.inputs import PlanInputs
from service.plan.planner import Plan
from service.plan.tables import Tables
from service.runtime.computer import PlanLimits
from service.runtime.engine import Operation
from service.runtime.plan_codec import plan_fields
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
from service.wire.json_answer import encode_json

Compute = Callable[[Sequence[PlanInputs], bool], list[Plan]]
"""From inputs, and whether entries are wanted, to the plan of each. Runs on the device thread."""

PutQuery = tuple[Tables, int, int]
"""Tables, and the rows and columns that they shall have at least."""

_QUICK_ENTRIES = 8192
"""Plans of at most so many verify entries are computed where they are, if that needs no device."""


@dataclass(frozen=True, slots=True)
class Planned:
    """The plans of one request, by group if it has groups, and the version of the pool they were made over, if any."""

    plans: list[Plan]
    groups: tuple[str, ...] = ()
    pool_version: int | None = None

    @property
    def elements(self) -> int:
        """About how many numbers there are to encode."""
        return sum(map(_elements, self.plans))


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
            def plan(pool: Pool) -> Planned:
                return Planned(self.compute(query.plan.inputs(pool.tables), True), pool_version=pool.version)

            return Stepped(*self.pools.change(name, query.update, precondition.at(query.pool_version), plan))

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
                return Planned(self.compute(query.inputs(), with_entries), query.groups)
            self.require_one_worker()
            pool = self.pools.use(query.pool, Precondition(version=query.pool_version))
            return Planned(self.compute(query.inputs(pool.tables), with_entries), query.groups, pool.version)

        return Operation(
            fields=fields,
            query=query,
            run=run,
            encode=self._encode_plans,
            elements=lambda planned: planned.elements,
            is_quick=self._is_quick,
        )

    def _is_quick(self, query: PlanQuery) -> bool:
        return self.quick and query.most_entries <= _QUICK_ENTRIES

    def _encode_plans(self, planned: Planned) -> bytes:
        version = {} if planned.pool_version is None else {"pool_version": planned.pool_version}
        signed: dict[str, object] = {**self.signature, **version}
        if not planned.groups:
            return encode_json(plan_fields(planned.plans[0]) | signed)
        groups = b",".join(
            orjson.dumps(name) + b":" + encode_json(plan_fields(plan))
            for name, plan in zip(planned.groups, planned.plans, strict=True)
        )
        return b'{"groups":{' + groups + b"}," + encode_json(signed)[1:]


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


def _elements(plan: Plan) -> int:
    entries = 0 if plan.entries is None else 4 * plan.entries.verify_slot_indices.shape[0]
    return entries + 2 * plan.sizes.bs + plan.sizes.write_req_capacity
