"""The store of pools by itself: copies, versions, budget, order of use, and changes that are undone."""

import time
from collections.abc import Sequence
from typing import Any

import pytest
import torch

from service.errors import Refusal, refusal
from service.kernels.backend import Backend, Target, backend_named
from service.kernels.operands import ScatterOperands
from service.plan.tables import Tables
from service.plan.transfer import Workspace
from service.plan.update import CellsBefore, CellsUpdate, RowsUpdate, TablesUpdate
from service.runtime import pools as pools_module
from service.runtime.pools import ANY, Pool, PoolStore, Precondition, etag_of

CPU = torch.device("cpu")
BYTES = 3 * 2 * 4 * 2 + 4 * 8
NOTHING = TablesUpdate({})


def tables(first: int = 0) -> Tables:
    """Tables of ``BYTES`` that count up from ``first``."""
    cells = torch.arange(first, first + 6, dtype=torch.int32).reshape(3, 2)
    return Tables(cells, torch.arange(first, first + 4), cells + 100)


def store(max_resident_bytes: int = 10**6, backend: Backend | None = None) -> PoolStore:
    return PoolStore(Workspace(Target(CPU, backend or backend_named("host"))), max_resident_bytes)


def rows(row: int, *tokens: int) -> RowsUpdate:
    return RowsUpdate(torch.tensor(tokens), torch.tensor([0, len(tokens)]), torch.tensor([row]))


UPDATE = TablesUpdate(
    {"req_to_token": rows(1, 70, 71), "req_to_verify_expected_tokens": rows(2, 80)},
    CellsUpdate(torch.tensor([3]), torch.tensor([90])),
)


def cells_of(pool: Pool) -> list[Any]:
    return [tensor.tolist() for tensor, _ in pool.tables.given()]


def names(pools: Sequence[Pool]) -> list[str]:
    return [pool.name for pool in pools]


def code_of(error: pytest.ExceptionInfo[Refusal]) -> str:
    return error.value.code


def test_a_pool_is_a_copy_of_the_tables_that_it_was_put_with() -> None:
    pools, given = store(), tables()
    pool, created = pools.put("a", given)
    given.req_to_token.fill_(-9)
    assert created
    assert cells_of(pool) == cells_of(Pool("a", 0, tables()))
    assert all(tensor.is_contiguous() for tensor, _ in pool.tables.given())


def test_versions_count_up_over_all_pools_and_past_deletes() -> None:
    pools = store()
    seen = [pools.put("a", tables())[0].version, pools.put("b", tables())[0].version]
    seen.append(pools.put("a", tables())[0].version)
    pools.delete("a")
    seen.append(pools.put("a", tables())[0].version)
    seen.append(pools.change("b", UPDATE, ANY, lambda _: None)[0].version)
    assert seen == sorted(set(seen))


def test_a_later_start_begins_at_later_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    first, _ = store().put("a", tables())
    assert first.version > 2**50
    started = time.time_ns()
    monkeypatch.setattr(time, "time_ns", lambda: started + 10**6)
    second, _ = store().put("a", tables())
    assert second.version > first.version
    assert second.version < 2**53, "a version must survive a client that reads numbers as doubles"


def test_a_put_is_judged_before_it_takes_any_room() -> None:
    pools = store(BYTES)
    kept, _ = pools.put("a", tables())
    with pytest.raises(Refusal) as raised:
        pools.put("a", tables(5), Precondition(other_etags=frozenset({"*"})))
    assert code_of(raised) == "pool-precondition-failed"
    with pytest.raises(Refusal) as raised:
        pools.put("a", tables().widened(4, 2))
    assert code_of(raised) == "resident-budget-exceeded"
    assert pools.snapshot() == [kept]


@pytest.mark.parametrize(("budget", "left"), [(3, ["b", "c", "d"]), (2, ["c", "d"]), (1, ["d"])])
def test_as_many_pools_give_way_as_must(budget: int, left: list[str]) -> None:
    pools = store(budget * BYTES + BYTES - 1)
    for name in "abcd":
        pools.put(name, tables())
    assert names(pools.snapshot()) == left


def test_pools_that_take_no_room_give_way_when_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pools_module, "MOST_POOLS", 3)
    pools, nothing = store(0), Tables(torch.empty((0, 0), dtype=torch.int32))
    for name in "abcd":
        pools.put(name, nothing)
    assert names(pools.snapshot()) == ["b", "c", "d"]
    pools.put("b", nothing)
    assert names(pools.snapshot()) == ["c", "d", "b"]


def test_a_use_moves_a_pool_to_the_end_and_a_look_does_not() -> None:
    pools = store()
    for name in "abc":
        pools.put(name, tables())
    pools.pool("a")
    assert names(pools.snapshot()) == ["a", "b", "c"]
    assert pools.use("a").name == "a"
    assert pools.use("a").name == "a"
    assert names(pools.snapshot()) == ["b", "c", "a"]


def test_what_was_read_before_does_not_change_with_the_store() -> None:
    pools = store()
    pools.put("a", tables())
    snapshot, pool = pools.snapshot(), pools.pool("a")
    pools.change("a", UPDATE, ANY, lambda _: None)
    pools.put("b", tables())
    pools.delete("a")
    assert snapshot == [pool]
    assert names(pools.snapshot()) == ["b"]


def test_a_change_is_seen_by_what_follows_it_at_its_new_version() -> None:
    pools = store()
    old, _ = pools.put("a", tables())
    changed, seen = pools.change("a", UPDATE, ANY, lambda pool: pool)
    assert seen is changed
    assert changed.version > old.version
    assert cells_of(changed) == [
        [[0, 1], [70, 71], [4, 5]],
        [0, 1, 2, 90],
        [[100, 101], [102, 103], [80, 105]],
    ]
    assert pools.pool("a") is changed


def test_a_pool_whose_change_cannot_be_undone_is_no_longer_there(monkeypatch: pytest.MonkeyPatch) -> None:
    pools = store()
    pools.put("a", tables())
    kept, _ = pools.put("b", tables())

    def lost(_: CellsBefore) -> None:
        raise RuntimeError("the device is lost")

    def refuse(_: Pool) -> None:
        raise refusal("nothing-to-scatter")

    monkeypatch.setattr(CellsBefore, "restore", lost)
    with pytest.raises(RuntimeError, match="lost"):
        pools.change("a", UPDATE, ANY, refuse)
    assert pools.snapshot() == [kept]


class Stop(BaseException):
    """Something that is no error, such as the end of the process."""


@pytest.mark.parametrize("error", [ValueError, Stop, MemoryError])
def test_whatever_stops_what_follows_undoes_the_change(error: type[BaseException]) -> None:
    pools = store()
    old, _ = pools.put("a", tables())

    def fail(_: Pool) -> None:
        assert cells_of(old)[0] == [[0, 1], [70, 71], [4, 5]]
        raise error

    with pytest.raises(error):
        pools.change("a", UPDATE, ANY, fail)
    assert pools.snapshot() == [old]
    assert cells_of(old) == cells_of(Pool("a", 0, tables()))


def test_a_change_that_fails_half_way_is_undone() -> None:
    host = backend_named("host")
    launched: list[ScatterOperands] = []

    def launch_scatter(operands: ScatterOperands) -> None:
        launched.append(operands)
        if len(launched) == 2:
            raise MemoryError
        host.launch_scatter(operands)

    pools = store(backend=Backend("host", host.launch_plan, launch_scatter))
    old, _ = pools.put("a", tables())
    with pytest.raises(MemoryError):
        pools.change("a", UPDATE, ANY, lambda _: pytest.fail("it was not complete"))
    assert len(launched) == 2
    assert cells_of(old) == cells_of(Pool("a", 0, tables()))


def test_a_refused_update_never_reaches_the_tables() -> None:
    pools = store()
    old, _ = pools.put("a", tables())
    bad = TablesUpdate(UPDATE.rows, CellsUpdate(torch.tensor([4]), torch.tensor([90])), loc=("scatter",))
    with pytest.raises(Refusal) as raised:
        pools.change("a", bad, ANY, lambda _: pytest.fail("it was refused"))
    assert (code_of(raised), raised.value.loc) == ("cell-outside-lut", ("scatter", "full_to_swa_index_mapping"))
    assert pools.snapshot() == [old]
    assert cells_of(old) == cells_of(Pool("a", 0, tables()))


@pytest.mark.parametrize(
    "act", [lambda pools: pools.use("b"), lambda pools: pools.pool("b"), lambda pools: pools.delete("b")]
)
def test_a_pool_that_is_not_there_is_refused(act: Any) -> None:
    pools = store()
    pools.put("a", tables())
    with pytest.raises(Refusal, match="there is no pool b") as raised:
        act(pools)
    assert code_of(raised) == "pool-not-found"
    assert names(pools.snapshot()) == ["a"]


POOL = Pool("a", 7, tables())


@pytest.mark.parametrize(
    ("precondition", "accepts_pool", "accepts_absence"),
    [
        (ANY, True, True),
        (Precondition(etags=frozenset({"*"})), True, False),
        (Precondition(etags=frozenset({'"7"'})), True, False),
        (Precondition(etags=frozenset({'"6"', '"7"'})), True, False),
        (Precondition(etags=frozenset({'"6"'})), False, False),
        (Precondition(etags=frozenset()), False, False),
        (Precondition(other_etags=frozenset({"*"})), False, True),
        (Precondition(etags=frozenset({"*"}), other_etags=frozenset({"*"})), False, False),
        (Precondition(version=7), True, True),
        (Precondition(version=8), False, True),
        (Precondition(version=8).at(None), False, True),
        (Precondition(version=8).at(7), True, True),
        (Precondition(etags=frozenset({'"7"'})).at(8), False, False),
    ],
)
def test_a_precondition_accepts_what_it_says(
    precondition: Precondition, accepts_pool: bool, accepts_absence: bool
) -> None:
    for pool, accepts in ((POOL, accepts_pool), (None, accepts_absence)):
        if accepts:
            precondition.require("a", pool)
        else:
            with pytest.raises(Refusal):
                precondition.require("a", pool)
    assert etag_of(POOL) == '"7"'


def test_a_change_needs_its_precondition() -> None:
    pools = store()
    old, _ = pools.put("a", tables())
    for precondition in (Precondition(version=1), Precondition(etags=frozenset({'"1"'}))):
        with pytest.raises(Refusal):
            pools.change("a", UPDATE, precondition, lambda _: None)
        with pytest.raises(Refusal):
            pools.delete("a", precondition)
        with pytest.raises(Refusal):
            pools.use("a", precondition)
    assert pools.snapshot() == [old]
    assert cells_of(old) == cells_of(Pool("a", 0, tables()))
    changed, _ = pools.change("a", NOTHING, Precondition(version=old.version), lambda _: None)
    assert cells_of(changed) == cells_of(Pool("a", 0, tables()))
    pools.delete("a", Precondition(etags=frozenset({etag_of(changed)})))
    assert pools.snapshot() == []
