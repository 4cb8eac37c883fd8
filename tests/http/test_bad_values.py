"""Every kind of wrong value in every place of a plan body gets a 4xx problem, or the plan that it rightly has."""

import json
import re
from typing import Any

import pytest

from service.spec import INTEGER_RANGE, PLAN_INPUTS, ScalarSpec, TensorSpec
from tests.problems import require_good_plan, require_problem, require_refused
from tests.running import InProcess

FULL_REQUEST: dict[str, Any] = {
    "req_pool_indices": [1, 2],
    "prefix_lens": [2, 1],
    "extend_seq_lens": [1, 1],
    "req_to_token": [[0, 0], [1, 2], [3, 4]],
    "swa_window_size": 2,
    "full_to_swa_index_mapping": [0, 10, 20, 30, 40],
    "verify_capacity": 8,
    "write_req_capacity": 4,
    "req_to_verify_expected_tokens": [[0, 0], [7, 8], [9, 9]],
    "req_to_verify_expected_tokens_valid_lens": [2, 1],
    "kv_token_id_vs_position_offset": 0,
}
TENSORS = [spec for spec in PLAN_INPUTS if isinstance(spec, TensorSpec)]
SCALARS = [spec for spec in PLAN_INPUTS if isinstance(spec, ScalarSpec)]
NOT_INTEGERS = {
    "1.0": "float",
    "0.5": "float",
    "1e3": "float",
    "-0.0": "float",
    "1e400": "float",
    "true": "bool",
    "false": "bool",
    '"7"': "string",
    '""': "string",
    '"\\ud800"': "string",
    "{}": "object",
    '{"a": [1]}': "object",
}
EDGES = [sign * (2**power + step) for power in (31, 32, 53, 63, 64) for step in (-1, 0, 1) for sign in (1, -1)]
EDGES += [0, -1, 10**400, -(10**400)]


def _name(spec: TensorSpec | ScalarSpec) -> str:
    return spec.name


def _digits(value: int) -> str:
    return str(value)[:24]


def _body(name: str, value: str) -> str:
    """The full request with the JSON text ``value`` for one field."""
    members = FULL_REQUEST | {name: "@@"}
    return json.dumps(members).replace('"@@"', value)


def _element(spec: TensorSpec, value: str) -> tuple[str, str]:
    """The field's array with ``value`` as its last element, and the place of that element."""
    array = json.dumps(FULL_REQUEST[spec.name])
    cut = array.rfind(array.rstrip("]").rsplit(" ", 1)[1])
    end = "]" * spec.rank
    indices = [len(FULL_REQUEST[spec.name]) - 1] + ([1] if spec.rank == 2 else [])
    return array[:cut] + value + end, spec.name + "".join(f"[{index}]" for index in indices)


def test_the_request_that_is_spoilt_here_is_good(service: InProcess) -> None:
    assert service.post("/plan", json=FULL_REQUEST).json()["verify_slot_indices"] == [10, 20, 30]


@pytest.mark.parametrize("value", NOT_INTEGERS)
@pytest.mark.parametrize("spec", PLAN_INPUTS, ids=_name)
def test_a_field_that_is_no_integer_and_no_array_is_named(
    service: InProcess, spec: TensorSpec | ScalarSpec, value: str
) -> None:
    detail = require_refused(service, service.post_plan(_body(spec.name, value)), "not-an-integer")
    assert detail == f"kv-canary: {spec.name} must be an integer, got {NOT_INTEGERS[value]}"


@pytest.mark.parametrize("value", [*NOT_INTEGERS, "null"])
@pytest.mark.parametrize("spec", TENSORS, ids=_name)
def test_an_element_that_is_no_integer_is_named(service: InProcess, spec: TensorSpec, value: str) -> None:
    array, place = _element(spec, value)
    detail = require_refused(service, service.post_plan(_body(spec.name, array)), "not-an-integer")
    assert detail == f"kv-canary: {place} must be an integer, got {NOT_INTEGERS.get(value, 'null')}"


@pytest.mark.parametrize("spec", PLAN_INPUTS, ids=_name)
def test_null_leaves_an_optional_field_out_and_is_refused_for_a_required_one(
    service: InProcess, spec: TensorSpec | ScalarSpec
) -> None:
    response = service.post_plan(_body(spec.name, "null"))
    if isinstance(spec, TensorSpec) and spec.required:
        detail = require_refused(service, response, "not-an-integer")
        assert detail == f"kv-canary: {spec.name} must be an integer, got null"
        return
    without = service.post("/plan", json={name: value for name, value in FULL_REQUEST.items() if name != spec.name})
    assert response.status_code == without.status_code
    assert response.json().get("detail") == without.json().get("detail")
    assert response.json().get("verify_offsets") == without.json().get("verify_offsets")


@pytest.mark.parametrize("value", EDGES, ids=_digits)
@pytest.mark.parametrize("spec", SCALARS, ids=_name)
def test_an_integer_field_takes_its_range_and_nothing_else(service: InProcess, spec: ScalarSpec, value: int) -> None:
    response = service.post_plan(_body(spec.name, str(value)))

    smallest, largest = INTEGER_RANGE[spec.dtype]
    if not smallest <= value <= largest:
        detail = require_refused(service, response, "value-does-not-fit")
        assert detail == f"kv-canary: {spec.name} value {value} does not fit torch.{spec.dtype}"
    elif response.status_code != 200:
        require_refused(
            service,
            response,
            "verify-capacity-not-positive",
            "write-req-capacity-not-positive",
            "batch-exceeds-write-req-capacity",
            "batch-too-large",
        )


@pytest.mark.parametrize("value", EDGES, ids=_digits)
@pytest.mark.parametrize("spec", TENSORS, ids=_name)
def test_an_element_takes_its_range_and_nothing_else(service: InProcess, spec: TensorSpec, value: int) -> None:
    array, place = _element(spec, str(value))
    response = service.post_plan(_body(spec.name, array))

    smallest, largest = INTEGER_RANGE[spec.dtype]
    if not smallest <= value <= largest:
        detail = require_refused(service, response, "value-does-not-fit")
        assert detail == f"kv-canary: {place} value {value} does not fit torch.{spec.dtype}"
    elif response.status_code != 200:
        require_refused(
            service,
            response,
            "row-outside-table",
            "prefix-exceeds-columns",
            "valid-len-exceeds-columns",
            "extend-sum-overflow",
            "slot-outside-lut",
        )


@pytest.mark.parametrize("value", ["[]", "[[]]", "[[], []]", "[[[]]]", "5", "[[1]]", "[[[1, 2]]]"])
@pytest.mark.parametrize("spec", PLAN_INPUTS, ids=_name)
def test_empty_and_misshapen_arrays_are_judged_by_their_shape(
    service: InProcess, spec: TensorSpec | ScalarSpec, value: str
) -> None:
    response = service.post_plan(_body(spec.name, value))
    if isinstance(spec, ScalarSpec) and value != "5":
        detail = require_refused(service, response, "not-an-integer")
        assert detail == f"kv-canary: {spec.name} must be an integer, got array"
        return
    shape = {"[]": (0,), "[[]]": (1, 0), "[[], []]": (2, 0), "[[[]]]": (1, 1, 0), "5": (), "[[1]]": (1, 1)}.get(value)
    shape = (1, 1, 2) if shape is None else shape
    if isinstance(spec, TensorSpec) and len(shape) != spec.rank and value != "[]":
        detail = require_refused(service, response, "wrong-rank")
        assert detail == f"kv-canary: {spec.name} must be {spec.rank}-D, got shape {shape}"
    elif response.status_code != 200:
        require_refused(
            service, response, "wrong-length", "too-short", "row-outside-table", "row-outside-expected-tokens"
        )


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ("[[0, 0], [1], [2, 3, 4]]", "row 1 has 1, row 0 has 2"),
        ("[[0], [1, 2], [3, 4]]", "row 1 has 2, row 0 has 1"),
        ("[[0, 0], [1, 2], []]", "row 2 has 0, row 0 has 2"),
        ("[[], [1, 2], [1]]", "row 1 has 2, row 0 has 0"),
    ],
)
@pytest.mark.parametrize("name", ["req_to_token", "req_to_verify_expected_tokens", "prefix_lens"])
def test_rows_that_differ_are_named_even_when_their_total_is_right(
    service: InProcess, name: str, rows: str, words: str
) -> None:
    detail = require_refused(service, service.post_plan(_body(name, rows)), "ragged-rows")
    assert detail == f"kv-canary: {name} rows differ in length: {words}"


@pytest.mark.parametrize("rows", ["[[0, 0], 1, [2, 3]]", "[1, [2, 3]]", "[[0, 0], [[1], 2], [2, 3]]"])
@pytest.mark.parametrize("name", ["req_to_token", "prefix_lens"])
def test_arrays_and_integers_at_one_level_are_refused(service: InProcess, name: str, rows: str) -> None:
    require_refused(service, service.post_plan(_body(name, rows)), "not-an-array", "not-an-integer", "ragged-rows")


def test_inactive_rows_may_hold_any_integer(service: InProcess) -> None:
    extreme = [-(2**63), 2**63 - 1]
    request = {"req_pool_indices": [0, 0], "prefix_lens": extreme, "extend_seq_lens": extreme, "req_to_token": []}
    response = service.post("/plan", json=request)
    assert response.json()["verify_offsets"] == [0, 0, 0]
    assert response.json()["write_seed_slot_indices"] == [-1, -1]


def test_a_million_strings_get_a_short_answer(service: InProcess) -> None:
    strings = "[" + ",".join(['"x"'] * 1_000_000) + "]"
    for name in ("prefix_lens", "req_to_token", "swa_window_size", "verify_capacity"):
        detail = require_problem(service.post_plan(_body(name, strings)), "not-an-integer")
        assert re.fullmatch(rf"kv-canary: {name}(\[0\])? must be an integer, got (string|array)", detail)
    require_good_plan(service)


def test_an_integer_of_a_million_digits_gets_a_short_answer(service: InProcess) -> None:
    for name in ("swa_window_size", "verify_capacity"):
        require_refused(service, service.post_plan(_body(name, "9" * 1_000_000)), "value-does-not-fit")
    for name in ("prefix_lens", "req_to_token"):
        value = f"[[{'9' * 1_000_000}]]"
        require_refused(service, service.post_plan(_body(name, value)), "value-does-not-fit")
