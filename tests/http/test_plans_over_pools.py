"""Plans whose tables come from a pool: which fields go with it, which flags leave tables out, where there are none."""

from typing import Any

import pytest

from tests.pools import BATCH, LUT, SLOTS, TABLES, TOKENS, contents, loc_of, put, rows_update
from tests.problems import require_good_plan, require_problem, require_refused
from tests.running import GOOD_REQUEST, InProcess, host_app, in_process

ROUTES: list[tuple[str, dict[str, Any]]] = [
    ("/plan", {}),
    ("/plan/offsets", {}),
    ("/plan/groups", {"groups": {"full": {}}}),
]
ROUTE_NAMES = [path for path, _ in ROUTES]


@pytest.mark.parametrize(
    ("flags", "lut", "tokens"),
    [
        ({}, True, True),
        ({"use_full_to_swa_index_mapping": None, "use_req_to_verify_expected_tokens": None}, True, True),
        ({"use_full_to_swa_index_mapping": True, "use_req_to_verify_expected_tokens": True}, True, True),
        ({"use_full_to_swa_index_mapping": False}, False, True),
        ({"use_req_to_verify_expected_tokens": False}, True, False),
        ({"use_full_to_swa_index_mapping": False, "use_req_to_verify_expected_tokens": False}, False, False),
    ],
)
@pytest.mark.parametrize("over_pool", [True, False])
def test_flags_leave_tables_out(
    service: InProcess, over_pool: bool, flags: dict[str, Any], lut: bool, tokens: bool
) -> None:
    put(service, "flagged")
    seen = contents(service, "flagged")
    answer = service.post("/plan", json=BATCH | flags | ({"pool": "flagged"} if over_pool else TABLES)).json()
    assert answer["verify_slot_indices"] == (seen.translated if lut else seen.slots)
    assert answer["verify_expected_tokens"] == (seen.tokens if tokens else [-1] * 15)
    assert answer.get("pool_version") == (seen.version if over_pool else None)


def test_lens_of_a_token_table_that_is_left_out_are_neither_needed_nor_judged(service: InProcess) -> None:
    put(service, "lens")
    lens = "req_to_verify_expected_tokens_valid_lens"
    for value in (None, [9, 9, 9], [1], [[1]]):
        body = BATCH | {"pool": "lens", lens: value, "use_req_to_verify_expected_tokens": False}
        assert service.post("/plan", json=body).status_code == 200
    require_refused(service, service.post("/plan", json=BATCH | {"pool": "lens", lens: None}))


@pytest.mark.parametrize("value", [0, 1, "true", [], {}, 1.0])
@pytest.mark.parametrize("flag", ["use_full_to_swa_index_mapping", "use_req_to_verify_expected_tokens"])
def test_a_flag_is_true_or_false(service: InProcess, flag: str, value: object) -> None:
    response = service.post("/plan", json=GOOD_REQUEST | {flag: value})
    assert f"{flag} must be true or false" in require_refused(service, response, "not-a-boolean")


@pytest.mark.parametrize(("path", "more"), ROUTES, ids=ROUTE_NAMES)
def test_tables_of_the_body_beside_a_pool_are_refused(service: InProcess, path: str, more: dict[str, Any]) -> None:
    put(service, "beside")
    groups = path == "/plan/groups"
    for name, table in TABLES.items():
        if groups and name == "full_to_swa_index_mapping":
            continue
        response = service.post(path, json=BATCH | more | {"pool": "beside", name: table})
        detail = require_refused(service, response, "pool-with-inline-tables")
        assert detail == f"{name} must not be given together with pool"
        assert response.status_code == 422
        assert service.post(path, json=BATCH | more | {"pool": "beside", name: None}).status_code == 200


def test_a_look_up_table_of_a_group_beside_a_pool_is_refused(service: InProcess) -> None:
    put(service, "grouped")
    groups = {"full": {}, "swa": {"full_to_swa_index_mapping": LUT}}
    response = service.post("/plan/groups", json=BATCH | {"pool": "grouped", "groups": groups})
    assert "full_to_swa_index_mapping must not" in require_refused(service, response, "pool-with-inline-tables")
    assert loc_of(response) == ["groups", "swa"]


@pytest.mark.parametrize(("path", "more"), ROUTES, ids=ROUTE_NAMES)
def test_without_a_pool_the_table_is_required(service: InProcess, path: str, more: dict[str, Any]) -> None:
    for source in ({}, {"pool": None}, {"pool": None, "req_to_token": None}):
        response = service.post(path, json=BATCH | more | source)
        assert require_refused(service, response) in (
            "kv-canary: req_to_token is required",
            "kv-canary: req_to_token must be an integer, got null",
        )
    answer = service.post(path, json=GOOD_REQUEST | more | {"pool": None})
    assert answer.status_code == 200
    assert "pool_version" not in answer.json()


@pytest.mark.parametrize(("path", "more"), ROUTES, ids=ROUTE_NAMES)
@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("", "pool-name-invalid"),
        ("-a", "pool-name-invalid"),
        ("a/b", "pool-name-invalid"),
        ("a b", "pool-name-invalid"),
        ("a\n", "pool-name-invalid"),
        ("\u00e9", "pool-name-invalid"),
        ("x" * 64, "pool-not-found"),
        ("x" * 65, "text-too-long"),
        ("\u00e9" * 33, "text-too-long"),
        (7, "not-a-string"),
        (["a"], "not-a-string"),
        (True, "not-a-string"),
    ],
)
def test_a_pool_that_cannot_be_is_refused(
    service: InProcess, path: str, more: dict[str, Any], name: object, code: str
) -> None:
    require_refused(service, service.post(path, json=BATCH | more | {"pool": name}), code)


def test_offsets_over_a_pool_are_the_plan_without_its_entries(service: InProcess) -> None:
    version = put(service, "offsets")
    plan = service.post("/plan", json=BATCH | {"pool": "offsets"}).json()
    offsets = service.post("/plan/offsets", json=BATCH | {"pool": "offsets"}).json()
    assert offsets["pool_version"] == version
    entries = ("slot_indices", "expected_tokens", "expected_positions", "prev_slot_indices")
    assert offsets == {
        name: value for name, value in plan.items() if name not in {f"verify_{part}" for part in entries}
    }


def test_the_limits_of_a_plan_hold_over_a_pool() -> None:
    with in_process(host_app(max_requests=3, max_verify_entries=14)) as service:
        put(service, "a")
        over = BATCH | {"pool": "a"}
        wants = "the plan needs 15 verify entries, more than the limit of 14 (KV_PLAN_MAX_VERIFY_ENTRIES)"
        assert require_problem(service.post("/plan", json=over), "plan-too-large") == wants
        assert service.post("/plan/offsets", json=over).status_code == 200
        # A plan that is disabled has no entries to answer.
        assert service.post("/plan", json=over | {"verify_capacity": 14}).json()["verify_enable"] is False
        require_problem(service.post("/plan", json=over | {"write_req_capacity": 4}), "batch-too-large")
        longer = {name: [*values, 0] for name, values in BATCH.items()}
        require_problem(service.post("/plan", json=longer | {"pool": "a"}), "batch-too-large")


def test_a_service_of_several_processes_has_no_pools_but_plans() -> None:
    with in_process(host_app(workers=2)) as service:
        for method, path, body in (
            ("GET", "/pools", None),
            ("GET", "/pools/a", None),
            ("GET", "/pools/-bad", None),
            ("PUT", "/pools/a", TABLES),
            ("DELETE", "/pools/a", None),
            ("POST", "/pools/a/scatter", {"req_to_token": rows_update({1: [7]})}),
            ("POST", "/pools/a/step", {"plan": BATCH}),
            *(("POST", path, BATCH | more | {"pool": "a"}) for path, more in ROUTES),
        ):
            response = service.request(method, path, json=body)
            detail = require_problem(response, "pools-need-one-worker")
            assert (response.status_code, detail) == (501, "pools need KV_PLAN_WORKERS=1, this service has 2")
        require_good_plan(service)
        for path in ("/plan", "/plan/offsets"):
            assert service.post(path, json=BATCH | TABLES).status_code == 200
        groups = {"req_to_token": SLOTS, "req_to_verify_expected_tokens": TOKENS, "groups": {"full": {}}}
        assert service.post("/plan/groups", json=BATCH | groups).status_code == 200
