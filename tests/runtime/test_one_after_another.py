"""Plans and changes of one pool happen one after the other, whichever thread does them.

Every change writes one value into all cells of all tables, so that a plan which saw half of it would show two values.
"""

import random
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch

from service.kernels.backend import Target, backend_named
from service.plan.inputs import PlanInputs
from service.plan.planner import Plan
from service.plan.tables import Tables
from service.plan.transfer import Workspace
from service.plan.update import TablesUpdate, apply_update
from service.runtime import operations as operations_module
from service.runtime import pools as pools_module
from service.runtime.computer import PlanComputer, PlanLimits
from tests.pools import rows_update
from tests.problems import require_problem
from tests.running import PATIENCE_SECONDS, InProcess, host_app, in_process

ROWS, COLUMNS, VALUES = 4, 6, 40
CLIENTS, CALLS = 6, 20
LENS = {"req_to_verify_expected_tokens_valid_lens": [COLUMNS] * (ROWS - 1)}
BATCH: dict[str, Any] = {
    "req_pool_indices": list(range(1, ROWS)),
    "prefix_lens": [COLUMNS] * (ROWS - 1),
    "extend_seq_lens": [1] * (ROWS - 1),
}
ALL = BATCH | LENS


def tables(value: int) -> dict[str, Any]:
    """Tables that hold ``value`` everywhere; the look-up table holds a thousand times as much."""
    cells = [[value] * COLUMNS] * ROWS
    lut = [1000 * value] * VALUES
    return {"req_to_token": cells, "full_to_swa_index_mapping": lut, "req_to_verify_expected_tokens": cells}


def update(value: int) -> dict[str, Any]:
    """The scatter that makes of any tables those of ``value``."""
    rows = rows_update({row: [value] * COLUMNS for row in range(ROWS)})
    cells = {"indices": list(range(VALUES)), "values": [1000 * value] * VALUES}
    return {"req_to_token": rows, "full_to_swa_index_mapping": cells, "req_to_verify_expected_tokens": rows}


def value_of(plan: dict[str, Any]) -> int:
    """The one value that a plan over such tables shows in every cell that it has looked up."""
    (value,) = set(plan["verify_expected_tokens"])
    slots = {*plan["verify_slot_indices"], *plan["write_seed_slot_indices"], *plan["verify_prev_slot_indices"]} - {-1}
    assert slots <= {value, 1000 * value}, plan
    assert len(slots) == 1
    return int(value)


@dataclass(slots=True)
class Client:
    """One caller: what it did, and which value each version that it saw had."""

    service: InProcess
    seed: int
    changed: dict[int, int] = field(default_factory=dict)
    planned: list[tuple[int, int]] = field(default_factory=list)

    def run(self) -> None:
        """Call again and again; each answer must be of no older version than the one before."""
        rng, latest = random.Random(self.seed), 0  # noqa: S311
        calls: list[Callable[[int], tuple[int, int | None]]] = [self.scatter, self.step, self.put, *[self.plan] * 3]
        calls += [self.groups, self.conditional]
        for _ in range(CALLS):
            value = rng.randrange(VALUES)
            version, written = rng.choice(calls)(value)
            if written is None:
                assert version >= latest
            else:
                assert version > latest
                assert version not in self.changed
                self.changed[version] = written
            latest = max(latest, version)

    def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        response = self.service.post(path, json=body)
        assert response.status_code == 200, response.text
        answer: dict[str, Any] = response.json()
        return answer

    def scatter(self, value: int) -> tuple[int, int | None]:
        return self.post("/pools/a/scatter", update(value))["version"], value

    def step(self, value: int) -> tuple[int, int | None]:
        answer = self.post("/pools/a/step", {"scatter": update(value), "plan": ALL})
        assert value_of(answer) == value
        return answer["pool_version"], value

    def put(self, value: int) -> tuple[int, int | None]:
        return int(self.service.request("PUT", "/pools/a", json=tables(value)).json()["version"]), value

    def plan(self, value: int) -> tuple[int, int | None]:
        window = {"swa_window_size": 1} if value % 2 else {}
        answer = self.post("/plan", ALL | window | {"pool": "a"})
        self.planned.append((answer["pool_version"], value_of(answer)))
        return answer["pool_version"], None

    def groups(self, _: int) -> tuple[int, int | None]:
        groups = {"full": {"use_full_to_swa_index_mapping": False}, "swa": {"swa_window_size": 2}}
        answer = self.post("/plan/groups", ALL | {"pool": "a", "groups": groups})
        (seen,) = {value_of(plan) for plan in answer["groups"].values()}
        self.planned.append((answer["pool_version"], seen))
        return answer["pool_version"], None

    def conditional(self, value: int) -> tuple[int, int | None]:
        """A change of the version that was just read: made, or refused because somebody else was there first."""
        version: int = self.service.get("/pools/a").json()["version"]
        body = update(value) | {"pool_version": version}
        response = self.service.post("/pools/a/scatter", json=body, headers={"if-match": f'"{version}"'})
        if response.status_code == 200:
            return int(response.json()["version"]), value
        require_problem(response, "pool-precondition-failed")
        return version, None


def _torn(torn: TablesUpdate, resident: Tables, workspace: Workspace) -> None:
    """The update, one table after the other, with time for others in between."""
    for name, rows in torn.rows.items():
        apply_update(TablesUpdate({name: rows}), resident, workspace)
        threading.Event().wait(0.0005)
    apply_update(TablesUpdate({}, torn.cells), resident, workspace)


def _slow(inputs: Sequence[PlanInputs], with_entries: bool) -> list[Plan[Any]]:
    """The plans, made twice with time for others in between."""
    limits = PlanLimits(10**6, 10**6, 10**6)
    computer = PlanComputer(Workspace(Target(torch.device("cpu"), backend_named("host"))), limits)
    computer(inputs, with_entries)
    threading.Event().wait(0.0005)
    return computer(inputs, with_entries)


@pytest.fixture(params=["inline", "inline and device thread", "device thread", "codec threads"])
def service(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[InProcess]:
    """Services that do their work in different threads; changes take long enough to be seen half done."""
    monkeypatch.setattr(pools_module, "apply_update", _torn)
    if request.param == "inline and device thread":
        monkeypatch.setattr(operations_module, "_QUICK_ENTRIES", 2 * ROWS)
    app = host_app(
        _slow if request.param == "device thread" else None,
        inline_body_bytes=0 if request.param == "codec threads" else 10**6,
    )
    with in_process(app) as running:
        yield running


def test_a_plan_sees_the_tables_before_a_change_or_after_it(service: InProcess) -> None:
    first = service.request("PUT", "/pools/a", json=tables(0)).json()["version"]
    clients = [Client(service, seed) for seed in range(CLIENTS)]
    with ThreadPoolExecutor(CLIENTS) as threads:
        for done in [threads.submit(client.run) for client in clients]:
            done.result(PATIENCE_SECONDS)
    value_at = {first: 0}
    for client in clients:
        assert not value_at.keys() & client.changed.keys(), "two changes made one version"
        value_at |= client.changed
    planned = [seen for client in clients for seen in client.planned]
    assert planned
    assert [seen for seen in planned if value_at[seen[0]] != seen[1]] == []
    answer = service.post("/plan", json=ALL | {"pool": "a"}).json()
    assert (answer["pool_version"], value_of(answer)) == (max(value_at), value_at[max(value_at)])


def test_what_arrives_during_a_change_waits_behind_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the order of arrival: a plan, a change, a plan, a replacement, a plan, a deletion, a plan."""
    half, let = threading.Event(), threading.Event()

    def held(whole: TablesUpdate, resident: Tables, workspace: Workspace) -> None:
        if not half.is_set():
            apply_update(TablesUpdate({"req_to_token": whole.rows["req_to_token"]}), resident, workspace)
            half.set()
            assert let.wait(PATIENCE_SECONDS)
        apply_update(whole, resident, workspace)

    monkeypatch.setattr(pools_module, "apply_update", held)
    monkeypatch.setattr(operations_module, "_QUICK_ENTRIES", 2 * ROWS)
    quick = ALL | {"swa_window_size": 1, "pool": "a"}
    with in_process(host_app(inline_body_bytes=10**6)) as service:
        service.request("PUT", "/pools/a", json=tables(1))
        first = service.start("POST", "/pools/a/scatter", json=update(2))
        assert half.wait(PATIENCE_SECONDS)
        behind, old = [], service.get("/pools/a").json()
        try:
            for method, path, body in (
                ("POST", "/plan", quick),
                ("POST", "/pools/a/step", {"plan": ALL, "scatter": update(3)}),
                ("POST", "/plan", quick),
                ("PUT", "/pools/b", tables(4)),
                ("POST", "/plan", quick | {"pool": "b"}),
                ("DELETE", "/pools/a", None),
                ("POST", "/plan", quick),
            ):
                behind.append(service.start(method, path, json=body))
                # Answered on the event loop, by when the one before waits for the device thread.
                assert service.get("/pools/a").json() == old
            assert not any(waiting.done() for waiting in [first, *behind])
        finally:
            let.set()
        new = first.result(PATIENCE_SECONDS).json()["version"]
        answers = [waiting.result(PATIENCE_SECONDS) for waiting in behind]
        before, stepped, after, _, over_b = (answer.json() for answer in answers[:5])
        assert old["version"] < new == before["pool_version"] < stepped["pool_version"] == after["pool_version"]
        assert [value_of(plan) for plan in (before, stepped, after, over_b)] == [2, 3, 3, 4]
        assert answers[5].status_code == 204
        require_problem(answers[6], "pool-not-found")
