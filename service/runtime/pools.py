"""Owns the resident tables of one process: named pools, their versions and their budget. Used on the device thread.

Reading ``snapshot`` and ``pool`` is safe in any thread: what they return never changes.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TypeVar

from service.errors import refusal
from service.plan.few_requests import HostTables, host_tables
from service.plan.tables import Tables
from service.plan.transfer import Workspace
from service.plan.update import CellsBefore, TablesUpdate, apply_update, cells_before, judge_update

MOST_POOLS = 1024
"""However small they are: each takes memory that the budget does not see, and is looked at when another is used."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Pool:
    """The tables under one name, as they are at one version."""

    name: str
    version: int
    tables: Tables
    on_host: HostTables | None = None
    """The memory of the tables as arrays, where it is the host's."""


@dataclass(frozen=True, slots=True)
class Precondition:
    """What a caller requires of a pool before it is touched; by default nothing."""

    etags: frozenset[str] | None = None
    """The pool must exist, at a version whose entity tag is among these (``*``: any)."""
    other_etags: frozenset[str] = frozenset()
    """There must be no such pool, or only at a version whose entity tag is not among these (``*``: any)."""
    version: int | None = None
    """The pool must be at this version."""

    def at(self, version: int | None) -> "Precondition":
        """The same, and that the pool is at ``version`` unless that is None."""
        return self if version is None else replace(self, version=version)

    def require(self, name: str, pool: Pool | None) -> None:
        """Accept the pool called ``name`` as it is, or as it is missing."""
        have = "absent" if pool is None else f"at version {pool.version}"
        if self.etags is not None and (pool is None or not self.etags & {"*", etag_of(pool)}):
            raise refusal("pool-precondition-failed", name=name, have=have, header="If-Match")
        if pool is not None and self.other_etags & {"*", etag_of(pool)}:
            raise refusal("pool-precondition-failed", name=name, have=have, header="If-None-Match")
        if pool is None:
            return
        if self.version is not None and self.version != pool.version:
            raise refusal("pool-version-conflict", name=name, have=pool.version, want=self.version)


ANY = Precondition()


def etag_of(pool: Pool) -> str:
    """The entity tag of a pool: its version in quotes."""
    return f'"{pool.version}"'


@dataclass(slots=True)
class PoolStore:
    """Pools within a budget of bytes and ``MOST_POOLS``; those used longest ago go first when one is exceeded."""

    workspace: Workspace
    max_resident_bytes: int
    _pools: dict[str, Pool] = field(default_factory=dict)
    """From the pool used longest ago to the one used last. Replaced, never changed, so that any thread can read it."""
    _version: int = field(default_factory=lambda: time.time_ns() // 1000)
    """Versions count up from the microsecond of the start, so that none is used again, not even after a restart."""

    def snapshot(self) -> list[Pool]:
        """Every pool, those used last at the end."""
        return list(self._pools.values())

    def pool(self, name: str) -> Pool:
        """The pool of that name, which does not count as a use. Raises ``ServingRefusal`` if there is none."""
        pool = self._pools.get(name)
        if pool is None:
            raise refusal("pool-not-found", name=name)
        return pool

    def use(self, name: str, precondition: Precondition = ANY) -> Pool:
        """The pool of that name, for a plan or a change. Raises ``ServingRefusal``."""
        precondition.require(name, self._pools.get(name))
        pool = self.pool(name)
        if next(reversed(self._pools)) != name:
            self._set(pool)
        return pool

    def put(self, name: str, tables: Tables, precondition: Precondition = ANY) -> tuple[Pool, bool]:
        """The new pool of that name with a copy of ``tables`` on the device, and whether there was none before.

        Until it is complete the old one stays. Others are given up, longest unused first, to keep within the budget
        and ``MOST_POOLS``.
        Raises ``ServingRefusal`` if these tables alone exceed it.
        """
        old = self._pools.get(name)
        precondition.require(name, old)
        need = tables.resident_bytes
        if need > self.max_resident_bytes:
            raise refusal("resident-budget-exceeded", have=need, limit=self.max_resident_bytes)
        resident = tables.on(self.workspace.target.device)
        kept = {key: pool for key, pool in self._pools.items() if key != name}
        held = sum(pool.tables.resident_bytes for pool in kept.values())
        while held + need > self.max_resident_bytes or len(kept) >= MOST_POOLS:
            held -= kept.pop(next(iter(kept))).tables.resident_bytes
        pool = Pool(name, self._next_version(), resident, host_tables(resident))
        self._pools = kept | {name: pool}
        return pool, old is None

    def change(
        self, name: str, update: TablesUpdate, precondition: Precondition, then: Callable[[Pool], T]
    ) -> tuple[Pool, T]:
        """The pool after ``update``, and what ``then`` makes of it. If either is refused, nothing has changed."""
        pool = self.use(name, precondition)
        judge_update(update, pool.tables)
        if update.writes_nothing:
            return pool, then(pool)
        before = cells_before(update, pool.tables)
        changed = replace(pool, version=self._next_version())
        try:
            apply_update(update, pool.tables, self.workspace)
            result = then(changed)
        except BaseException:
            self._undo(pool, before)
            raise
        self._set(changed)
        return changed, result

    def _undo(self, pool: Pool, before: list[CellsBefore]) -> None:
        try:
            for cells in before:
                cells.restore()
        except BaseException:
            # Nobody knows what the tables hold now. Without the pool its callers send them again.
            self._pools = {key: other for key, other in self._pools.items() if key != pool.name}
            raise

    def delete(self, name: str, precondition: Precondition = ANY) -> None:
        """Forget the pool. Raises ``ServingRefusal`` if there is none."""
        precondition.require(name, self._pools.get(name))
        self.pool(name)
        self._pools = {key: pool for key, pool in self._pools.items() if key != name}

    def _set(self, pool: Pool) -> None:
        self._pools = {key: other for key, other in self._pools.items() if key != pool.name} | {pool.name: pool}

    def _next_version(self) -> int:
        self._version += 1
        return self._version
