"""Steps: change a pool, then plan over it; if either is refused, nothing has changed."""

from typing import Any

import pytest

from tests.pools import BATCH, LUT, SLOTS, TABLES, TOKENS, contents, loc_of, put, rows_update, version_of
from tests.problems import require_good_plan, require_problem, require_refused
from tests.running import InProcess, host_app, in_process

TABLE, LUT_NAME, TOKEN_TABLE = TABLES
SCATTER: dict[str, Any] = {
    TABLE: rows_update({1: [14, 13], 2: [0]}),
    LUT_NAME: {"indices": [14, 13], "values": [-5, 6]},
    TOKEN_TABLE: rows_update({1: [1], 3: [2]}, [0, 4]),
}


def step(service: InProcess, name: str, plan: dict[str, Any], scatter: object = None) -> dict[str, Any]:
    """The plan that a good step makes."""
    response = service.post(f"/pools/{name}/step", json={"scatter": scatter, "plan": plan})
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    assert response.headers["etag"] == f'"{answer["pool_version"]}"' == f'"{version_of(service, name)}"'
    return answer


def test_a_step_answers_the_plan_that_a_scatter_and_a_plan_after_it_would(service: InProcess) -> None:
    put(service, "stepped")
    put(service, "apart")
    stepped = step(service, "stepped", BATCH, SCATTER)
    service.post("/pools/apart/scatter", json=SCATTER)
    planned = service.post("/plan", json=BATCH | {"pool": "apart"}).json()
    assert stepped.pop("pool_version") != planned.pop("pool_version")
    assert stepped == planned
    # Row 2 now begins with slot 0, and row 1 with 14 and 13, which the look-up table now translates otherwise.
    assert stepped["verify_slot_indices"][:2] == [-5, 6]
    assert stepped["verify_slot_indices"][5] == LUT[0]
    assert stepped["verify_expected_tokens"][:1] + stepped["verify_expected_tokens"][-1:] == [1, 2]


@pytest.mark.parametrize("scatter", [None, {}, {TABLE: None}, {TABLE: rows_update({})}])
def test_a_step_that_changes_nothing_still_plans(service: InProcess, scatter: object) -> None:
    put(service, "idle")
    before = contents(service, "idle")
    answer = step(service, "idle", BATCH, scatter)
    assert answer["verify_slot_indices"] == before.translated
    assert contents(service, "idle").slots == before.slots
    assert answer["pool_version"] == before.version


@pytest.mark.parametrize(
    ("flags", "slots", "tokens"),
    [
        ({}, False, False),
        ({"use_full_to_swa_index_mapping": False}, True, False),
        ({"use_req_to_verify_expected_tokens": False}, False, True),
        ({"use_full_to_swa_index_mapping": None, "use_req_to_verify_expected_tokens": True}, False, False),
    ],
)
def test_a_step_leaves_out_the_tables_that_it_is_told_to(
    service: InProcess, flags: dict[str, Any], slots: bool, tokens: bool
) -> None:
    put(service, "flags")
    seen = contents(service, "flags")
    answer = step(service, "flags", BATCH | flags)
    assert answer["verify_slot_indices"] == (seen.slots if slots else seen.translated)
    assert answer["verify_expected_tokens"] == ([-1] * 15 if tokens else seen.tokens)


REFUSED_PLANS: list[tuple[dict[str, Any], str]] = [
    ({"req_pool_indices": [1, 2, 4]}, "req_pool_indices[2]=4 is outside req_to_token rows [0, 4)"),
    ({"prefix_lens": [5, 6, 5]}, "prefix_lens[1]=6 exceeds req_to_token columns 5"),
    ({"prefix_lens": [5]}, "prefix_lens length must be 3, got 1"),
    ({"extend_seq_lens": [2**63 - 1, 1, 0]}, "extend_seq_lens sum exceeds int64"),
    ({"verify_capacity": 0}, "VerifyPlan verify_capacity must be positive, got 0"),
    ({"write_req_capacity": 2}, "bs=3 exceeds write_req_capacity=2"),
    (
        {"req_to_verify_expected_tokens_valid_lens": None},
        "launch_canary_plan_kernels requires req_to_verify_expected_tokens_valid_lens when "
        "req_to_verify_expected_tokens is set",
    ),
    (
        {"req_to_verify_expected_tokens_valid_lens": [6, 5, 5]},
        "req_to_verify_expected_tokens_valid_lens[0]=6 exceeds req_to_verify_expected_tokens columns 5",
    ),
    (
        {"swa_window_size": 2, "use_full_to_swa_index_mapping": False},
        "launch_canary_plan_kernels requires full_to_swa_index_mapping when swa_window_size > 0",
    ),
]


@pytest.mark.parametrize(("change", "detail"), REFUSED_PLANS)
def test_a_step_whose_plan_is_refused_changes_nothing(service: InProcess, change: dict[str, Any], detail: str) -> None:
    put(service, "undone")
    before = contents(service, "undone")
    response = service.post("/pools/undone/step", json={"scatter": SCATTER, "plan": BATCH | change})
    assert require_problem(response) == f"kv-canary: {detail}"
    assert (response.status_code, loc_of(response)) == (422, ["plan"])
    assert contents(service, "undone") == before
    require_good_plan(service)


@pytest.mark.parametrize("capacity", [None, 1])
def test_a_step_that_scatters_a_slot_outside_the_look_up_table_changes_nothing(
    service: InProcess, capacity: int | None
) -> None:
    put(service, "outside")
    before = contents(service, "outside")
    # The last cell of row 2, so that it is a seed too: that is read even when the entries overflow.
    body = {"scatter": SCATTER | {TABLE: rows_update({2: [15]}, [4])}, "plan": BATCH | {"verify_capacity": capacity}}
    response = service.post("/pools/outside/step", json=body)
    assert require_problem(response) == "kv-canary: SWA slot 15 is outside full_to_swa_index_mapping length 15"
    assert loc_of(response) == ["plan"]
    assert contents(service, "outside") == before


def test_a_scatter_may_store_what_a_later_plan_refuses(service: InProcess) -> None:
    put(service, "later")
    response = service.post("/pools/later/scatter", json={TABLE: rows_update({2: [15]})})
    assert response.status_code == 200
    plan = service.post("/plan", json=BATCH | {"pool": "later"})
    require_refused(service, plan, "slot-outside-lut")
    assert "loc" not in plan.json()
    assert (
        service.post("/plan", json=BATCH | {"pool": "later", "use_full_to_swa_index_mapping": False}).status_code == 200
    )


@pytest.mark.parametrize(
    ("limits", "change", "code", "loc"),
    [
        ({"max_verify_entries": 14}, {}, "plan-too-large", []),
        ({"max_requests": 3}, {"write_req_capacity": 4}, "batch-too-large", ["plan"]),
        ({"max_requests": 2}, {}, "batch-too-large", ["plan"]),
    ],
)
def test_a_step_over_a_limit_changes_nothing(
    limits: dict[str, Any], change: dict[str, Any], code: str, loc: list[str]
) -> None:
    with in_process(host_app(**limits)) as service:
        version = put(service, "a")
        response = service.post("/pools/a/step", json={"scatter": SCATTER, "plan": BATCH | change})
        require_problem(response, code)
        assert loc_of(response) == loc
        assert version_of(service, "a") == version
        row = {"req_pool_indices": [1], "prefix_lens": [5], "extend_seq_lens": [0], "pool": "a"}
        lens = {"req_to_verify_expected_tokens_valid_lens": [5]}
        answer = service.post("/plan", json=row | lens | {"use_full_to_swa_index_mapping": False}).json()
        assert (answer["verify_slot_indices"], answer["verify_expected_tokens"]) == (SLOTS[1], TOKENS[1])


@pytest.mark.parametrize(
    ("body", "code", "loc"),
    [
        ({}, "missing-field", []),
        ({"plan": None}, "not-an-object", []),
        ({"plan": []}, "not-an-object", []),
        ({"plan": {}}, "missing-field", ["plan"]),
        ({"plan": BATCH, "scatter": 7}, "not-an-object", []),
        ({"plan": BATCH | {"pool": "forms"}}, "unknown-field", ["plan"]),
        ({"plan": BATCH | {"pool_version": 7}}, "unknown-field", ["plan"]),
        ({"plan": BATCH | {TABLE: SLOTS}}, "unknown-field", ["plan"]),
        ({"plan": BATCH | {LUT_NAME: LUT}}, "unknown-field", ["plan"]),
        ({"plan": BATCH | {TOKEN_TABLE: TOKENS}}, "unknown-field", ["plan"]),
        ({"plan": BATCH | {"prefix_lens": [5, "5", 5]}}, "not-an-integer", ["plan"]),
        ({"plan": BATCH | {"use_full_to_swa_index_mapping": 0}}, "not-a-boolean", ["plan"]),
        ({"plan": BATCH, "scatter": {"pool_version": 7}}, "unknown-field", ["scatter"]),
        ({"plan": BATCH, "scatter": {TABLE: {"flat_in": [1]}}}, "missing-field", ["scatter", TABLE]),
        ({"plan": BATCH, "scatter": {TABLE: {"flat": [1]}}}, "unknown-field", ["scatter", TABLE]),
        (BATCH, "unknown-field", []),
    ],
)
def test_a_step_of_another_form_is_refused(service: InProcess, body: dict[str, Any], code: str, loc: list[str]) -> None:
    put(service, "forms")
    before = contents(service, "forms")
    response = service.post("/pools/forms/step", json=body)
    require_refused(service, response, code)
    assert (response.status_code, loc_of(response)) == (422, loc)
    assert contents(service, "forms") == before


def test_misspelt_names_inside_objects_get_a_hint(service: InProcess) -> None:
    put(service, "spelt")
    response = service.post("/pools/spelt/step", json={"plan": BATCH | {"swa_window_siz": 1}})
    assert require_problem(response) == 'unknown field "swa_window_siz"; did you mean "swa_window_size"?'


def test_an_empty_batch_is_planned_after_the_change(service: InProcess) -> None:
    put(service, "empty")
    nothing: dict[str, Any] = {name: [] for name in BATCH}
    answer = step(service, "empty", nothing, SCATTER)
    assert (answer["verify_total"], answer["verify_offsets"], answer["write_offsets"]) == (0, [0], [0, 0])
    assert contents(service, "empty").slots[:2] == [14, 13]
