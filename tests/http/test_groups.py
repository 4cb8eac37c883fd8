"""Plans of several groups: each is the plan that the group would get alone, over a pool or over the body's tables."""

from typing import Any

import pytest

from tests.pools import BATCH, LUT, SLOTS, TABLES, TOKENS, loc_of, put
from tests.problems import require_good_plan, require_problem, require_refused
from tests.running import InProcess, host_app, in_process

INLINE = {"req_to_token": SLOTS, "req_to_verify_expected_tokens": TOKENS}
ENVELOPE = ("device", "backend", "pool_version")
GROUPS: dict[str, dict[str, Any]] = {
    "full": {"use_full_to_swa_index_mapping": False},
    "swa": {"swa_window_size": 2},
    "swa.wide": {"swa_window_size": 2**63 - 1, "verify_capacity": 15},
    "tight-1": {"verify_capacity": 3},
    "draft": {"kv_token_id_vs_position_offset": 1},
    "back": {"kv_token_id_vs_position_offset": -(2**31)},
    "quiet": {"use_req_to_verify_expected_tokens": False, "use_full_to_swa_index_mapping": True},
    "Z_0": {"swa_window_size": -1, "verify_capacity": None, "kv_token_id_vs_position_offset": None},
}
"""Groups of every kind, over a pool that has all tables."""


def alone(service: InProcess, body: dict[str, Any]) -> dict[str, Any]:
    """The plan's fields, as POST /plan answers them."""
    response = service.post("/plan", json=body)
    assert response.status_code == 200, response.text
    return {name: value for name, value in response.json().items() if name not in ENVELOPE}


def test_each_group_over_a_pool_gets_the_plan_that_it_gets_alone(service: InProcess) -> None:
    version = put(service, "groups")
    over = BATCH | {"pool": "groups", "write_req_capacity": 5}
    answer = service.post("/plan/groups", json=over | {"groups": GROUPS}).json()
    assert answer == {
        "groups": {name: alone(service, over | group) for name, group in GROUPS.items()},
        "device": "cpu",
        "backend": "host",
        "pool_version": version,
    }
    assert list(answer) == ["groups", "device", "backend", "pool_version"]
    assert list(answer["groups"]) == list(GROUPS)


def test_each_group_may_bring_a_look_up_table_of_its_own(service: InProcess) -> None:
    other = [7 * cell for cell in LUT]
    groups: dict[str, dict[str, Any]] = {
        "swa": {"swa_window_size": 3, "full_to_swa_index_mapping": LUT},
        "full": {},
        "other": {"full_to_swa_index_mapping": other},
        "unused": {"full_to_swa_index_mapping": other, "use_full_to_swa_index_mapping": False},
    }
    answer = service.post("/plan/groups", json=BATCH | INLINE | {"groups": groups}).json()
    assert answer["groups"] == {name: alone(service, BATCH | INLINE | group) for name, group in groups.items()}
    assert list(answer["groups"]) == ["swa", "full", "other", "unused"]
    assert "pool_version" not in answer


@pytest.mark.parametrize("body", [{name: [] for name in BATCH}, {name: [0] for name in BATCH}])
def test_a_batch_without_active_requests_has_empty_plans(service: InProcess, body: dict[str, Any]) -> None:
    put(service, "none")
    answer = service.post("/plan/groups", json=body | {"pool": "none", "groups": GROUPS}).json()
    assert {plan["verify_total"] for plan in answer["groups"].values()} == {0}


@pytest.mark.parametrize(
    ("group", "detail"),
    [
        ({"swa_window_size": 1, "use_full_to_swa_index_mapping": False}, "requires full_to_swa_index_mapping when"),
        ({"verify_capacity": 0}, "VerifyPlan verify_capacity must be positive, got 0"),
        ({"kv_token_id_vs_position_offset": 2**31}, f"value {2**31} does not fit torch.int32"),
        ({"swa_window_size": "2"}, "swa_window_size must be an integer, got string"),
        ({"swa_window": 2}, 'unknown field "swa_window"; did you mean "swa_window_size"?'),
        ({"use_full_to_swa_index_mappin": True}, 'did you mean "use_full_to_swa_index_mapping"?'),
        ({"prefix_lens": [1, 1, 1]}, 'unknown field "prefix_lens"'),
        ({"pool": "located"}, 'unknown field "pool"'),
        ({"write_req_capacity": 9}, 'unknown field "write_req_capacity"'),
        ({"req_to_verify_expected_tokens": [[7]]}, 'unknown field "req_to_verify_expected_tokens"'),
        ({"use_full_to_swa_index_mapping": "no"}, "must be true or false, got string"),
    ],
)
def test_a_fault_in_one_group_is_told_where_it_is(service: InProcess, group: dict[str, Any], detail: str) -> None:
    put(service, "located")
    groups = {"full": {}, "swa": group, "last": {"verify_capacity": -1}}
    response = service.post("/plan/groups", json=BATCH | {"pool": "located", "groups": groups})
    assert detail in require_refused(service, response)
    assert (response.status_code, loc_of(response)) == (422, ["groups", "swa"])


def test_a_slot_outside_a_groups_look_up_table_is_told_where_it_is(service: InProcess) -> None:
    groups = {"full": {}, "swa": {"full_to_swa_index_mapping": LUT[:14]}}
    response = service.post("/plan/groups", json=BATCH | INLINE | {"groups": groups})
    want = "kv-canary: SWA slot 14 is outside full_to_swa_index_mapping length 14"
    assert require_refused(service, response) == want
    assert loc_of(response) == ["groups", "swa"]


def test_a_fault_of_the_batch_is_told_of_the_first_group(service: InProcess) -> None:
    body = BATCH | INLINE | {"prefix_lens": [5, 6, 5], "groups": {"b": {}, "a": {}}}
    response = service.post("/plan/groups", json=body)
    assert require_refused(service, response) == "kv-canary: prefix_lens[1]=6 exceeds req_to_token columns 5"
    assert loc_of(response) == ["groups", "b"]


@pytest.mark.parametrize(
    ("groups", "code"),
    [
        ({}, "no-objects"),
        (None, "not-an-object"),
        ([{}], "not-an-object"),
        ("full", "not-an-object"),
        ({"full": None}, "not-an-object"),
        ({"full": []}, "not-an-object"),
        ({"full": 7}, "not-an-object"),
        ({"": {}}, "object-name-invalid"),
        ({"0": {}}, "object-name-invalid"),
        ({"a b": {}}, "object-name-invalid"),
        ({"a\n": {}}, "object-name-invalid"),
        ({"\u00e9": {}}, "object-name-invalid"),
        ({"a" * 65: {}}, "object-name-invalid"),
        ({f"g{number}": {} for number in range(17)}, "too-many-objects"),
    ],
)
def test_what_are_no_groups_is_refused(service: InProcess, groups: object, code: str) -> None:
    require_refused(service, service.post("/plan/groups", json=BATCH | INLINE | {"groups": groups}), code)


def test_groups_are_required_and_have_one_name_each(service: InProcess) -> None:
    response = service.post("/plan/groups", json=BATCH | INLINE)
    assert require_refused(service, response) == "kv-canary: groups is required"
    twice = b'{"groups": {"full": {}, "full": {}}}'
    response = service.post("/plan/groups", content=twice)
    require_refused(service, response, "duplicate-field")
    assert response.status_code == 400


def test_as_many_groups_as_there_may_be_are_planned(service: InProcess) -> None:
    groups = {"g" * 63 + "abcdefghijklmnop"[number]: {"verify_capacity": number + 1} for number in range(16)}
    answer = service.post("/plan/groups", json=BATCH | INLINE | {"groups": groups}).json()
    assert [plan["verify_num_valid"] for plan in answer["groups"].values()] == [min(n + 1, 15) for n in range(16)]


@pytest.mark.parametrize(
    "field", ["swa_window_size", "full_to_swa_index_mapping", "verify_capacity", "kv_token_id_vs_position_offset"]
)
def test_what_differs_by_group_is_refused_beside_the_groups(service: InProcess, field: str) -> None:
    response = service.post("/plan/groups", json=BATCH | INLINE | {"groups": {"full": {}}, field: 1})
    assert f'unknown field "{field}"' in require_refused(service, response, "unknown-field")
    assert loc_of(response) == []


def test_entries_of_all_groups_count_together() -> None:
    with in_process(host_app(max_verify_entries=20)) as service:
        put(service, "a")
        over = BATCH | {"pool": "a"}
        groups: dict[str, dict[str, Any]] = {"full": {}, "swa": {"swa_window_size": 2}}
        want = "the plan needs 21 verify entries, more than the limit of 20 (KV_PLAN_MAX_VERIFY_ENTRIES)"
        assert require_problem(service.post("/plan/groups", json=over | {"groups": groups}), "plan-too-large") == want
        # Groups that are disabled, or whose windows are narrower, leave room for others.
        for swa in ({"swa_window_size": 1}, {"swa_window_size": 2, "verify_capacity": 5}):
            answer = service.post("/plan/groups", json=over | {"groups": groups | {"swa": swa}})
            assert answer.status_code == 200
        require_good_plan(service)


def test_requests_and_cells_of_groups_are_bounded() -> None:
    with in_process(host_app(max_requests=3, max_table_cells=20)) as service:
        longer = {name: [*values, 0] for name, values in BATCH.items()}
        require_problem(
            service.post("/plan/groups", json=longer | INLINE | {"groups": {"full": {}}}), "batch-too-large"
        )
        swa = {"full_to_swa_index_mapping": [0] * 21}
        response = service.post("/plan/groups", json=BATCH | INLINE | {"groups": {"full": {}, "swa": swa}})
        require_problem(response, "table-too-large")
        assert loc_of(response) == ["groups", "swa"]
        assert service.post("/plan/groups", json=BATCH | INLINE | {"groups": {"full": {}}}).status_code == 200


def test_groups_without_tables_that_the_pool_lacks_are_planned_over_what_it_has(service: InProcess) -> None:
    put(service, "lacking", {"req_to_token": SLOTS})
    groups: dict[str, dict[str, Any]] = {"full": {}, "same": {"use_full_to_swa_index_mapping": True}}
    answer = service.post("/plan/groups", json=BATCH | {"pool": "lacking", "groups": groups}).json()
    slots = [slot for row in SLOTS[1:] for slot in row]
    assert [plan["verify_slot_indices"] for plan in answer["groups"].values()] == [slots, slots]
    response = service.post(
        "/plan/groups", json=BATCH | {"pool": "lacking", "groups": {"full": {}, "swa": {"swa_window_size": 1}}}
    )
    require_refused(service, response, "window-requires-lut")
    assert loc_of(response) == ["groups", "swa"]


def test_all_tables_of_a_pool_are_used_by_default(service: InProcess) -> None:
    put(service, "default", TABLES)
    answer = service.post("/plan/groups", json=BATCH | {"pool": "default", "groups": {"full": {}}}).json()
    assert answer["groups"]["full"] == alone(service, BATCH | TABLES)
