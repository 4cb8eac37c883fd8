"""Every recorded case again over a pool and as a group: the same plan, or the same words of refusal."""

from typing import Any

import httpx
import pytest

from tests.cases import Case, load_cases
from tests.pools import loc_of
from tests.problems import require_good_plan, require_problem
from tests.running import InProcess

TABLES = ("req_to_token", "full_to_swa_index_mapping", "req_to_verify_expected_tokens")
OF_A_GROUP = ("swa_window_size", "full_to_swa_index_mapping", "verify_capacity", "kv_token_id_vs_position_offset")
ENVELOPE = ("device", "backend", "pool_version")
PLAN_CASES = load_cases("plan")
ERROR_CASES = load_cases("error")
OF_TABLES = {"table_3d", "lut_empty", "tokens_1d", "dtype_table_2_31", "ragged_short", "ragged_same_total"}
"""Error cases whose tables can be stored nowhere, so that the PUT refuses them in the plan's words."""
OF_THE_BATCH_FIRST = {"order_extend_before_table_rank"}
"""An error case with a fault in the batch, which a PUT does not see, and another in a table."""
BATCH_ERROR_CASES = [case for case in ERROR_CASES if case.id not in OF_TABLES | OF_THE_BATCH_FIRST]
POOL = "cases"


def _id(case: Case) -> str:
    return case.id


def _put(service: InProcess, case: Case) -> httpx.Response:
    tables = {name: case.request[name] for name in TABLES if name in case.request}
    return service.request("PUT", f"/pools/{POOL}", json=tables)


def _over_pool(case: Case) -> dict[str, Any]:
    return {name: value for name, value in case.request.items() if name not in TABLES} | {"pool": POOL}


def _grouped(request: dict[str, Any], **groups: dict[str, Any]) -> dict[str, Any]:
    """The request of several groups that have what ``request`` says of one, save for what each says itself."""
    own = {name: request[name] for name in OF_A_GROUP if name in request}
    shared = {name: value for name, value in request.items() if name not in OF_A_GROUP}
    return shared | {"groups": {name: own | changes for name, changes in groups.items()}}


def _plan(answer: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in answer.items() if name not in ENVELOPE}


def _scatter_body(case: Case) -> dict[str, Any]:
    return {name: case.request[name] for name in ("flat_in", "offsets", "req_pool_indices")}


@pytest.mark.parametrize("case", PLAN_CASES, ids=_id)
def test_a_plan_over_a_pool_is_the_plan_over_the_same_tables(service: InProcess, case: Case) -> None:
    version = _put(service, case).json()["version"]
    inline = service.post("/plan", json=case.request)
    over = service.post("/plan", json=_over_pool(case))
    assert over.content == inline.content[:-1] + b',"pool_version":%d}' % version
    assert {name: over.json()[name] for name in case.response} == case.response


@pytest.mark.parametrize("case", PLAN_CASES[::5], ids=_id)
def test_offsets_and_a_step_that_changes_nothing_are_those_of_the_plan(service: InProcess, case: Case) -> None:
    version = _put(service, case).json()["version"]
    over = service.post("/plan/offsets", json=_over_pool(case))
    inline = service.post("/plan/offsets", json=case.request)
    assert over.content == inline.content[:-1] + b',"pool_version":%d}' % version
    plan = {name: value for name, value in case.request.items() if name not in TABLES}
    answer = service.post(f"/pools/{POOL}/step", json={"plan": plan}).json()
    assert {name: answer[name] for name in case.response} == case.response


@pytest.mark.parametrize("case", PLAN_CASES, ids=_id)
def test_groups_have_the_plans_that_they_have_alone(service: InProcess, case: Case) -> None:
    full = {"swa_window_size": 0, "full_to_swa_index_mapping": None, "verify_capacity": None}
    alone = _plan(service.post("/plan", json=case.request | full).json())
    groups = service.post("/plan/groups", json=_grouped(case.request, case={}, full=full)).json()["groups"]
    assert {name: groups["case"][name] for name in case.response} == case.response
    assert groups["full"] == alone
    _put(service, case)
    without_lut = full | {"use_full_to_swa_index_mapping": False}
    over = service.post("/plan/groups", json=_grouped(_over_pool(case), case={}, full=without_lut)).json()
    assert over["groups"] == groups
    assert set(over) == {"groups", *ENVELOPE}


@pytest.mark.parametrize("case", PLAN_CASES[::5], ids=_id)
def test_a_single_group_has_the_plan(service: InProcess, case: Case) -> None:
    groups = service.post("/plan/groups", json=_grouped(case.request, only={})).json()["groups"]
    assert groups == {"only": _plan(service.post("/plan", json=case.request).json())}


@pytest.mark.parametrize("case", BATCH_ERROR_CASES, ids=_id)
def test_an_error_of_the_batch_has_the_recorded_words_over_a_pool(service: InProcess, case: Case) -> None:
    stored = _put(service, case)
    response = service.post("/plan", json=_over_pool(case))
    assert require_problem(response) == case.detail
    assert response.status_code == case.status
    plan = {name: value for name, value in case.request.items() if name not in TABLES}
    step = service.post(f"/pools/{POOL}/step", json={"plan": plan})
    assert require_problem(step) == case.detail
    assert loc_of(step) == ["plan"]
    assert service.get(f"/pools/{POOL}").json() == stored.json()
    require_good_plan(service)


@pytest.mark.parametrize("case", [case for case in ERROR_CASES if case.id in OF_TABLES], ids=_id)
def test_tables_that_a_plan_refuses_are_refused_when_they_are_stored(service: InProcess, case: Case) -> None:
    response = _put(service, case)
    assert require_problem(response) == case.detail
    assert response.status_code == case.status
    require_good_plan(service)


def test_every_error_case_is_one_of_the_batch_or_one_of_the_tables(service: InProcess) -> None:
    (both,) = (case for case in ERROR_CASES if case.id in OF_THE_BATCH_FIRST)
    assert require_problem(_put(service, both)) == "kv-canary: req_to_token must be 2-D, got shape (24,)"
    assert {case.id for case in ERROR_CASES} >= OF_TABLES | OF_THE_BATCH_FIRST


@pytest.mark.parametrize("case", ERROR_CASES, ids=_id)
def test_an_error_has_the_recorded_words_in_a_group(service: InProcess, case: Case) -> None:
    response = service.post("/plan/groups", json=_grouped(case.request, only={}))
    assert require_problem(response) == case.detail
    assert response.status_code == case.status
    assert loc_of(response) in ([], ["groups", "only"])


@pytest.mark.parametrize("case", load_cases("scatter"), ids=_id)
def test_a_scatter_case_changes_a_pool_as_the_original_does(service: InProcess, case: Case) -> None:
    table = case.request["pool_out"]
    # Row 0 stands for padding in a plan, so the table lies one row lower, where every row of it can be seen.
    rows, columns = len(table), len(table[0])
    body = _scatter_body(case)
    body["req_pool_indices"] = [row + 1 for row in body["req_pool_indices"]]
    service.request("PUT", f"/pools/{POOL}", json={"req_to_token": [[0] * columns, *table]})
    wide = [token for token in body["flat_in"] if not -(2**31) <= token < 2**31]
    if wide:  # which in process keep their low 32 bits
        response = service.post(f"/pools/{POOL}/scatter", json={"req_to_token": body})
        index = body["flat_in"].index(wide[0])
        assert require_problem(response) == f"kv-canary: flat_in[{index}] value {wide[0]} does not fit torch.int32"
        body["flat_in"] = [(token + 2**31) % 2**32 - 2**31 for token in body["flat_in"]]
    assert service.post(f"/pools/{POOL}/scatter", json={"req_to_token": body}).status_code == 200
    batch = {
        "req_pool_indices": list(range(1, rows + 1)),
        "prefix_lens": [columns] * rows,
        "extend_seq_lens": [0] * rows,
    }
    seen = service.post("/plan", json=batch | {"pool": POOL}).json()["verify_slot_indices"]
    assert seen == [slot for row in case.response["pool_out"] for slot in row]
