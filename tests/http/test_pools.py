"""Pools over HTTP: stored, told, listed, forgotten; their names, their room, their budget and who gives way."""

import threading
from typing import Any

import pytest

from service.plan.tables import Tables
from tests.pools import BATCH, NO_LUT, SLOTS, TABLES, contents, put, rows_update, version_of
from tests.problems import require_good_plan, require_problem, require_refused
from tests.running import InProcess, host_app, in_process

CELL = {"req_to_token": [[0], [7]]}
"""A pool of 8 bytes."""
ONE = {"req_pool_indices": [1], "prefix_lens": [1], "extend_seq_lens": [0]}


def names(service: InProcess) -> list[str]:
    return [pool["pool"] for pool in service.get("/pools").json()["pools"]]


def test_a_pool_is_created_then_replaced(service: InProcess) -> None:
    first = service.request("PUT", "/pools/born", json=TABLES)
    second = service.request("PUT", "/pools/born", json=TABLES)
    assert (first.status_code, second.status_code) == (201, 200)
    assert second.json()["version"] > first.json()["version"]
    assert first.headers["content-type"] == "application/json"
    assert first.headers["server-timing"].startswith("decode;dur=")


def test_put_get_and_the_list_tell_the_same_of_a_pool(service: InProcess) -> None:
    stored = service.request("PUT", "/pools/told", json=TABLES)
    got = service.get("/pools/told")
    assert stored.json() == got.json()
    assert stored.headers["etag"] == got.headers["etag"] == f'"{got.json()["version"]}"'
    assert got.json() in service.get("/pools").json()["pools"]
    assert {name: value for name, value in got.json().items() if name != "version"} == {
        "pool": "told",
        "bytes": 80 + 120 + 80,
        "tables": [
            {"name": "req_to_token", "shape": [4, 5], "dtype": "int32", "bytes": 80},
            {"name": "full_to_swa_index_mapping", "shape": [15], "dtype": "int64", "bytes": 120},
            {"name": "req_to_verify_expected_tokens", "shape": [4, 5], "dtype": "int32", "bytes": 80},
        ],
    }


def test_the_list_adds_up_what_is_resident() -> None:
    with in_process(host_app(max_resident_bytes=100)) as service:
        assert service.get("/pools").json() == {"pools": [], "resident_bytes": 0, "max_resident_bytes": 100}
        put(service, "b", CELL)
        put(service, "a", CELL)
        listed = service.get("/pools").json()
        assert (listed["resident_bytes"], names(service)) == (16, ["b", "a"])


def test_a_pool_that_is_deleted_is_gone(service: InProcess) -> None:
    put(service, "gone")
    response = service.request("DELETE", "/pools/gone")
    assert (response.status_code, response.content) == (204, b"")
    for method, path, body in (
        ("GET", "/pools/gone", None),
        ("DELETE", "/pools/gone", None),
        ("POST", "/pools/gone/scatter", {"req_to_token": rows_update({1: [7]})}),
        ("POST", "/pools/gone/step", {"plan": BATCH}),
        ("POST", "/plan", BATCH | {"pool": "gone"}),
        ("POST", "/plan/offsets", BATCH | {"pool": "gone"}),
        ("POST", "/plan/groups", BATCH | {"pool": "gone", "groups": {"full": {}}}),
    ):
        response = service.request(method, path, json=body)
        assert require_refused(service, response, "pool-not-found") == "there is no pool gone"
        assert response.status_code == 404


def test_no_version_is_used_twice_even_after_a_delete(service: InProcess) -> None:
    versions = []
    for _ in range(3):
        versions += [put(service, "again"), put(service, "again")]
        service.request("DELETE", "/pools/again")
    assert versions == sorted(set(versions))


@pytest.mark.parametrize(
    "name", ["a", "7", "A.b_c-d", "a..", "x" * 64, "%61b", "step", "scatter", "0-", "pools", "a%2eb"]
)
def test_a_good_name_is_taken(service: InProcess, name: str) -> None:
    put(service, name)
    assert service.get(f"/pools/{name}").status_code == 200
    assert service.request("DELETE", f"/pools/{name}").status_code == 204


@pytest.mark.parametrize(
    "name",
    ["-a", ".a", "_a", "%2e%2ea", "x" * 65, "a%20b", "a%0a", "%0a", "a%00", "%c3%a9", "a~b", "a%25", "a%3fb", "a:b"],
)
def test_a_bad_name_is_refused_on_every_route(service: InProcess, name: str) -> None:
    for method, path, body in (
        ("PUT", f"/pools/{name}", TABLES),
        ("GET", f"/pools/{name}", None),
        ("DELETE", f"/pools/{name}", None),
        ("POST", f"/pools/{name}/scatter", {"req_to_token": rows_update({1: [7]})}),
        ("POST", f"/pools/{name}/step", {"plan": BATCH}),
    ):
        response = service.request(method, path, json=body)
        require_problem(response, "pool-name-invalid")
        assert response.status_code == 422
    require_good_plan(service)


@pytest.mark.parametrize("path", ["/pools/", "/pools/a%2Fb", "/pools/a/b", "/pools/a/step/"])
def test_a_path_that_is_none_of_a_pool_is_not_found(service: InProcess, path: str) -> None:
    require_problem(service.request("PUT", path, json=TABLES), "not-found")


@pytest.mark.parametrize(
    ("tables", "shapes"),
    [
        ({"req_to_token": SLOTS}, [[4, 5]]),
        ({"req_to_token": SLOTS, "rows": 7}, [[7, 5]]),
        ({"req_to_token": SLOTS, "columns": 6}, [[4, 6]]),
        (TABLES | {"rows": 6, "columns": 9}, [[6, 9], [15], [6, 9]]),
        (TABLES | {"rows": 2, "columns": 3}, [[4, 5], [15], [4, 5]]),
        (TABLES | {"rows": None, "columns": None}, [[4, 5], [15], [4, 5]]),
        ({"req_to_token": [], "rows": 3, "columns": 2}, [[3, 2]]),
        ({"req_to_token": []}, [[0, 0]]),
        ({"req_to_token": [[]], "rows": 3}, [[3, 0]]),
        ({"req_to_token": SLOTS, "full_to_swa_index_mapping": None, "req_to_verify_expected_tokens": None}, [[4, 5]]),
    ],
)
def test_rows_and_columns_make_room_but_never_less_than_is_sent(
    service: InProcess, tables: dict[str, Any], shapes: list[list[int]]
) -> None:
    put(service, "room", tables)
    assert [table["shape"] for table in service.get("/pools/room").json()["tables"]] == shapes


def test_room_holds_0_until_it_is_written(service: InProcess) -> None:
    put(service, "wide", {"req_to_token": [[0], [7]], "rows": 3, "columns": 3})
    batch = {"req_pool_indices": [1, 2], "prefix_lens": [3, 3], "extend_seq_lens": [0, 0], "pool": "wide"}
    assert service.post("/plan", json=batch).json()["verify_slot_indices"] == [7, 0, 0, 0, 0, 0]
    service.post("/pools/wide/scatter", json={"req_to_token": rows_update({2: [5, 6]}, [1])})
    assert service.post("/plan", json=batch).json()["verify_slot_indices"] == [7, 0, 0, 0, 5, 6]


def test_room_is_made_off_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[str] = []
    widened = Tables.widened

    def noted(tables: Tables, rows: int, columns: int) -> Tables:
        threads.append(threading.current_thread().name)
        return widened(tables, rows, columns)

    monkeypatch.setattr(Tables, "widened", noted)
    with in_process(host_app()) as service:
        put(service, "roomy", {"req_to_token": [], "rows": 1000, "columns": 1000})
        assert service.get("/pools/roomy").json()["bytes"] == 4 * 10**6
    assert threads == ["kv-plan-device_0"]


def test_a_replaced_pool_may_have_other_tables_of_other_shapes(service: InProcess) -> None:
    put(service, "other")
    put(service, "other", {"req_to_token": [[0] * 9, [5] * 9]})
    body = {"req_pool_indices": [1], "prefix_lens": [9], "extend_seq_lens": [1], "pool": "other"}
    assert service.post("/plan", json=body).json()["verify_slot_indices"] == [5] * 9
    put(service, "other")
    assert contents(service, "other").slots == [slot for row in SLOTS[1:] for slot in row]


@pytest.mark.parametrize(
    ("tables", "detail"),
    [
        ({}, "kv-canary: req_to_token is required"),
        ({"req_to_token": None}, "kv-canary: req_to_token must be an integer, got null"),
        ({"req_to_token": [1, 2]}, "kv-canary: req_to_token must be 2-D, got shape (2,)"),
        ({"req_to_token": 5}, "kv-canary: req_to_token must be 2-D, got shape ()"),
        ({"req_to_token": [[[1]]]}, "kv-canary: req_to_token must be 2-D, got shape (1, 1, 1)"),
        ({"req_to_token": [[2**31]]}, "kv-canary: req_to_token[0][0] value 2147483648 does not fit torch.int32"),
        (
            {"req_to_token": [[0]], "full_to_swa_index_mapping": []},
            "kv-canary: full_to_swa_index_mapping length must be >= 1, got 0",
        ),
        (
            {"req_to_token": [[0]], "full_to_swa_index_mapping": [[1]]},
            "kv-canary: full_to_swa_index_mapping must be 1-D, got shape (1, 1)",
        ),
        (
            {"req_to_token": [[0]], "req_to_verify_expected_tokens": [7]},
            "kv-canary: req_to_verify_expected_tokens must be 2-D, got shape (1,)",
        ),
        ({"req_to_token": [[0]], "row": 5}, 'unknown field "row"; did you mean "rows"?'),
        ({"req_to_token": [[0]], "rows": [1]}, "kv-canary: rows must be an integer, got array"),
        ({"req_to_token": [[0]], "rows": 2**63}, f"kv-canary: rows value {2**63} does not fit torch.int64"),
    ],
)
def test_tables_that_break_a_rule_leave_the_pool_as_it_was(
    service: InProcess, tables: dict[str, Any], detail: str
) -> None:
    put(service, "kept")
    before = contents(service, "kept")
    response = service.request("PUT", "/pools/kept", json=tables)
    assert require_refused(service, response) == detail
    assert response.status_code == 422
    assert contents(service, "kept") == before


@pytest.mark.parametrize(
    ("tables", "name", "cells"),
    [
        ({"req_to_token": [[0] * 21]}, "req_to_token", 21),
        ({"req_to_token": [[0]], "rows": 21}, "req_to_token", 21),
        ({"req_to_token": [[0] * 5], "rows": 5}, "req_to_token", 25),
        ({"req_to_token": [[0]], "req_to_verify_expected_tokens": [[0] * 21]}, "req_to_verify_expected_tokens", 21),
        ({"req_to_token": [[0]], "full_to_swa_index_mapping": [0] * 21}, "full_to_swa_index_mapping", 21),
        ({"req_to_token": [], "rows": 2**62, "columns": 2**62}, "req_to_token", 2**124),
        ({"req_to_token": [], "rows": 2**62}, "req_to_token", 2**62),
        ({"req_to_token": [], "columns": 2**63 - 1}, "req_to_token", 2**63 - 1),
    ],
)
def test_tables_over_the_limit_of_cells_are_refused(tables: dict[str, Any], name: str, cells: int) -> None:
    with in_process(host_app(max_table_cells=20)) as service:
        put(service, "a", {"req_to_token": [[0] * 5], "rows": 4, "columns": 5})
        response = service.request("PUT", "/pools/a", json=tables)
        detail = f"{name} has {cells} cells, more than the limit of 20 (KV_PLAN_MAX_TABLE_CELLS)"
        assert require_problem(response, "table-too-large") == detail
        assert service.get("/pools/a").json()["bytes"] == 80


def test_tables_over_the_budget_leave_the_old_pool_and_all_others() -> None:
    with in_process(host_app(max_resident_bytes=280)) as service:
        put(service, "a")
        before = contents(service, "a")
        response = service.request("PUT", "/pools/a", json=TABLES | {"columns": 6})
        want = "the tables take 312 bytes, more than the budget of 280 (KV_PLAN_MAX_RESIDENT_BYTES)"
        assert require_problem(response, "resident-budget-exceeded") == want
        assert response.status_code == 507
        assert contents(service, "a") == before
        require_good_plan(service)


def test_a_pool_that_just_fits_the_budget_displaces_all_others() -> None:
    with in_process(host_app(max_resident_bytes=24)) as service:
        for name in ("a", "b", "c"):
            put(service, name, CELL)
        assert names(service) == ["a", "b", "c"]
        put(service, "d", CELL | {"columns": 3})
        assert names(service) == ["d"]


def test_a_replaced_pool_gives_its_own_room_back_first() -> None:
    with in_process(host_app(max_resident_bytes=24)) as service:
        for name in ("a", "b"):
            put(service, name, CELL)
        put(service, "a", CELL | {"columns": 2})
        assert names(service) == ["b", "a"]


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/plan", ONE | {"pool": "a"}),
        ("POST", "/plan/offsets", ONE | {"pool": "a"}),
        ("POST", "/plan/groups", ONE | {"pool": "a", "groups": {"full": NO_LUT}}),
        ("POST", "/pools/a/scatter", {"req_to_token": rows_update({1: [5]})}),
        ("POST", "/pools/a/step", {"plan": ONE}),
        ("PUT", "/pools/a", CELL),
    ],
)
def test_pools_used_longest_ago_give_way_first(method: str, path: str, body: dict[str, Any]) -> None:
    with in_process(host_app(max_resident_bytes=16)) as service:
        put(service, "a", CELL)
        put(service, "b", CELL)
        assert service.request(method, path, json=body).status_code == 200
        assert names(service) == ["b", "a"]
        put(service, "c", CELL)
        assert names(service) == ["a", "c"]


def test_looking_at_a_pool_does_not_count_as_a_use() -> None:
    with in_process(host_app(max_resident_bytes=16)) as service:
        put(service, "a", CELL)
        put(service, "b", CELL)
        assert service.get("/pools/a").status_code == 200
        put(service, "c", CELL)
        assert names(service) == ["b", "c"]
        require_problem(service.post("/plan", json=ONE | {"pool": "a"}), "pool-not-found")


def test_a_pool_that_came_again_is_at_a_new_version() -> None:
    with in_process(host_app(max_resident_bytes=8)) as service:
        first = put(service, "a", CELL)
        put(service, "b", CELL)
        assert put(service, "a", CELL) > first
        assert version_of(service, "a") > first
