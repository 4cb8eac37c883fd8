"""Plans from Python integers are those of the planner, and of what the planner refuses none is made."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from service.errors import InvalidInput
from service.kernels.backend import Target, backend_named
from service.plan.few_requests import MOST_REQUESTS, HostTables, NotPlain, host_tables, judge_few_requests
from service.plan.planner import judge
from service.plan.tables import Tables
from service.runtime.plan_codec import plan_fields
from tests.cases import inputs_of, load_cases
from tests.planning import compute_plan
from tests.properties.strategies import INT64, requests

ENTRIES = 10**6
HOST = Target(torch.device("cpu"), backend_named("host"))


def from_integers(request: dict[str, Any], *, with_entries: bool = True, most_entries: int = ENTRIES) -> Any:
    """The plan as Python integers give it, None where it is left to the planner."""
    inputs = inputs_of(request)
    fields = {
        name: getattr(inputs, name).numpy() if isinstance(value, list) else value for name, value in request.items()
    }
    tables = Tables(inputs.req_to_token, inputs.full_to_swa_index_mapping, inputs.req_to_verify_expected_tokens)
    host = host_tables(tables)
    assert host is not None
    try:
        return judge_few_requests(fields, host).answer(with_entries=with_entries, most_entries=most_entries)
    except NotPlain:
        return None


def from_planner(request: dict[str, Any], *, with_entries: bool = True) -> Any:
    """The same as the planner has it; None if it refuses."""
    try:
        fields = plan_fields(compute_plan(judge(inputs_of(request)), HOST, with_entries=with_entries))
    except InvalidInput:
        return None
    return {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in fields.items()}


@given(request=requests(), with_entries=st.booleans())
@settings(max_examples=400, deadline=None)
def test_a_good_batch_has_the_planners_plan(request: dict[str, Any], with_entries: bool) -> None:
    made = from_integers(request, with_entries=with_entries)
    assert made is not None
    assert list(made.items()) == list(from_planner(request, with_entries=with_entries).items())


@given(request=requests(), data=st.data())
@settings(max_examples=600, deadline=None)
def test_of_a_batch_with_any_other_value_no_other_plan_is_made(request: dict[str, Any], data: st.DataObject) -> None:
    name = data.draw(st.sampled_from([name for name, value in request.items() if value and value != [[]]] or ["none"]))
    value = request.get(name)
    near = st.one_of(st.integers(-8, 40), INT64)
    if isinstance(value, int):
        # What a decoder or a limit refuses is not the planner's to judge, and it would take the memory asked for.
        bounded = name in ("kv_token_id_vs_position_offset", "write_req_capacity")
        request[name] = data.draw(st.integers(-8, 40) if bounded else near)
    elif value and not isinstance(value[0], list):
        value[data.draw(st.integers(0, len(value) - 1))] = data.draw(near)
    elif value:
        request[name] = value[:-1] or [[]]
    with_entries = data.draw(st.booleans())

    made = from_integers(request, with_entries=with_entries)

    assert made is None or made == from_planner(request, with_entries=with_entries)


@pytest.mark.parametrize("case", load_cases("plan"), ids=lambda case: case.id)
def test_a_recorded_case_has_its_plan_or_is_left_to_the_planner(case: Any) -> None:
    made = from_integers(case.request)
    few = len(case.request["req_pool_indices"]) <= MOST_REQUESTS
    assert (made is not None) is few
    if few:
        assert {name: made[name] for name in case.response} == case.response


def test_more_entries_than_are_wanted_are_left_to_the_planner() -> None:
    request = {"req_pool_indices": [1], "prefix_lens": [3], "extend_seq_lens": [1], "req_to_token": [[0] * 3] * 2}
    assert from_integers(request, most_entries=3) is not None
    assert from_integers(request, most_entries=2) is None
    assert from_integers(request, most_entries=2, with_entries=False) is not None
    assert from_integers(request | {"verify_capacity": 2}, most_entries=2) is not None
    assert from_integers(request | {"write_req_capacity": 2**62}) is None


@pytest.mark.parametrize(
    "change",
    [
        {"req_to_token": [0, 1]},
        {"prefix_lens": [1, 1]},
        {"req_pool_indices": [[1]]},
        {"full_to_swa_index_mapping": []},
        {"full_to_swa_index_mapping": [[1]]},
        {"req_to_verify_expected_tokens": [1], "req_to_verify_expected_tokens_valid_lens": [1]},
        {"req_to_verify_expected_tokens": [[1]]},
        {"swa_window_size": 1},
        {"verify_capacity": 0},
        {"write_req_capacity": 0},
    ],
    ids=str,
)
def test_what_is_of_another_form_is_left_to_the_planner(change: dict[str, Any]) -> None:
    request = {"req_pool_indices": [1], "prefix_lens": [1], "extend_seq_lens": [1], "req_to_token": [[0], [1]]}
    assert from_integers(request) is not None
    assert from_integers(request | change) is None


def test_tables_can_be_left_out() -> None:
    slots, other = np.zeros((2, 2), np.int32), np.zeros(2, np.int64)
    tables = HostTables(slots, other, slots)
    assert tables.without(lut=True, tokens=False) == HostTables(slots, None, slots)
    assert tables.without(lut=False, tokens=True) == HostTables(slots, other, None)


def test_tables_on_another_device_have_no_memory_here() -> None:
    assert host_tables(Tables(inputs_of({"req_to_token": [[1]]} | _NOTHING).req_to_token.to("meta"))) is None


_NOTHING: dict[str, Any] = {"req_pool_indices": [], "prefix_lens": [], "extend_seq_lens": []}
