"""Every recorded case through HTTP: the plan's fields, the exact words of errors, and a good plan after each."""

from typing import Any

import httpx
import pytest

from service.spec import PLAN_OUTPUTS
from tests.cases import Case, load_cases
from tests.problems import require_good_plan, require_problem
from tests.running import GOOD_REQUEST, GOOD_SLOTS, InProcess

PLAN_CASES = load_cases("plan")
ERROR_CASES = load_cases("error")
FAULTS_OF_ENTRIES = {"slot_int32_max"}
"""Slots outside the look-up table that are no seeds."""
ENTRY_FIELDS = {spec.name for spec in PLAN_OUTPUTS if spec.entries}


def _id(case: Case) -> str:
    return case.id


def _differing(answer: dict[str, Any], want: dict[str, Any]) -> list[str]:
    """The fields of ``want`` that the answer has otherwise; 1, 1.0 and true are three different values."""
    return [name for name, value in want.items() if repr(answer.get(name)) != repr(value)]


@pytest.mark.parametrize("case", PLAN_CASES, ids=_id)
def test_plan_answers_every_field_of_the_recorded_plan(service: InProcess, case: Case) -> None:
    response = service.post("/plan", json=case.request)

    assert response.status_code == 200
    answer = response.json()
    assert _differing(answer, case.response) == []
    assert list(answer) == [spec.name for spec in PLAN_OUTPUTS]
    assert (answer["device"], answer["backend"]) == ("cpu", "host")


@pytest.mark.parametrize("case", PLAN_CASES, ids=_id)
def test_offsets_answers_the_plan_without_its_entries(service: InProcess, case: Case) -> None:
    plan = service.post("/plan", json=case.request).json()

    offsets = service.post("/plan/offsets", json=case.request)

    assert offsets.json() == {name: value for name, value in plan.items() if name not in ENTRY_FIELDS}


@pytest.mark.parametrize("case", ERROR_CASES, ids=_id)
def test_an_error_has_the_recorded_words_and_leaves_nothing_behind(service: InProcess, case: Case) -> None:
    response = service.post("/plan", json=case.request)

    assert require_problem(response) == case.detail
    assert response.status_code == case.status
    require_good_plan(service)


@pytest.mark.parametrize("case", [case for case in ERROR_CASES if case.id not in FAULTS_OF_ENTRIES], ids=_id)
def test_offsets_refuses_in_the_same_words(service: InProcess, case: Case) -> None:
    response = service.post("/plan/offsets", json=case.request)

    assert require_problem(response) == case.detail


@pytest.mark.parametrize("case", [case for case in ERROR_CASES if case.id in FAULTS_OF_ENTRIES], ids=_id)
def test_offsets_does_not_judge_the_entries_that_it_does_not_compute(service: InProcess, case: Case) -> None:
    assert service.post("/plan/offsets", json=case.request).status_code == 200


@pytest.mark.parametrize("case", PLAN_CASES[::10], ids=_id)
def test_a_plan_over_a_socket_is_the_recorded_one(socket_client: httpx.Client, case: Case) -> None:
    assert _differing(socket_client.post("/plan", json=case.request).json(), case.response) == []


@pytest.mark.parametrize("case", ERROR_CASES, ids=_id)
def test_an_error_over_a_socket_has_the_recorded_words(socket_client: httpx.Client, case: Case) -> None:
    response = socket_client.post("/plan", json=case.request)

    assert require_problem(response) == case.detail
    assert response.status_code == case.status
    assert socket_client.post("/plan", json=GOOD_REQUEST).json()["verify_slot_indices"] == GOOD_SLOTS
