"""The quick look accepts nothing that breaks a rule, and what callers usually bring."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from service.errors import InvalidInput
from service.plan.inputs import PlanInputs
from service.plan.plain_form import has_plain_form, has_plain_inputs
from service.plan.validate import validate_form
from tests.plan.test_validate import ACCEPTED, RULES, good

INT32 = torch.int32
TABLES = ("req_to_token", "full_to_swa_index_mapping", "req_to_verify_expected_tokens")


def good_buffers() -> dict[str, Any]:
    """Buffers that fit good inputs."""
    return {
        "columns": [torch.empty(9, dtype=torch.int64) for _ in range(4)],
        "counts": [torch.empty(1, dtype=INT32) for _ in range(3)],
        "write_offsets": torch.empty(3, dtype=torch.int64),
        "seeds": torch.empty(2, dtype=torch.int64),
    }


def is_refused(inputs: PlanInputs) -> bool:
    try:
        validate_form(inputs)
    except InvalidInput:
        return True
    return False


@pytest.mark.parametrize("change", [change for change, _ in RULES], ids=[message for _, message in RULES])
def test_what_breaks_a_rule_of_form_is_not_accepted(change: dict[str, Any]) -> None:
    inputs = replace(good(), **change)
    assert has_plain_form(inputs, **good_buffers()) is not is_refused(inputs)
    assert has_plain_inputs(inputs) is not is_refused(inputs)


@pytest.mark.parametrize("change", [*ACCEPTED, {}, {"swa_window_size": 0, "full_to_swa_index_mapping": None}], ids=str)
def test_what_breaks_none_is_accepted(change: dict[str, Any]) -> None:
    inputs = replace(good(), **change)
    assert has_plain_form(inputs, **good_buffers())
    assert has_plain_inputs(inputs)


@pytest.mark.parametrize(
    "change",
    [
        {"req_pool_indices": [1, 2]},
        {"req_pool_indices": torch.tensor([[1, 2]])},
        {"prefix_lens": torch.tensor([1, 2]).to_sparse()},
        {"prefix_lens": None},
        {"req_to_token": None},
        {"full_to_swa_index_mapping": torch.nn.Parameter(torch.arange(24), requires_grad=False)},
        {"full_to_swa_index_mapping": [1]},
        {"verify_capacity": None},
        {"verify_capacity": 8},
        {"write_req_capacity": None},
        {"write_req_capacity": 3},
    ],
    ids=str,
)
def test_what_is_unusual_is_left_to_the_rules(change: dict[str, Any]) -> None:
    inputs = replace(good(), **change)
    assert not has_plain_form(inputs, **good_buffers())


@pytest.mark.parametrize(
    "change",
    [
        {"columns": [torch.empty(9, dtype=torch.int64)] * 3 + [torch.empty(18, dtype=torch.int64)[::2]]},
        {"columns": [torch.empty(9)] * 4},
        {"counts": [torch.empty(1, dtype=INT32, device="meta")] * 3},
        {"write_offsets": torch.empty(2, dtype=torch.int64)},
        {"seeds": torch.empty((2, 1), dtype=torch.int64)},
    ],
    ids=str,
)
def test_a_buffer_of_another_form_is_not_accepted(change: dict[str, Any]) -> None:
    inputs = good()
    assert not has_plain_form(inputs, **(good_buffers() | change))


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support:UserWarning")
def test_a_sparse_table_is_left_to_the_rules() -> None:
    table = good().req_to_token
    for sparse in (table.to_sparse(), table.to_sparse_csr()):
        assert not has_plain_inputs(replace(good(), req_to_token=sparse))


def test_without_buffers_capacities_may_be_left_to_their_defaults() -> None:
    assert has_plain_inputs(replace(good(), verify_capacity=None, write_req_capacity=None))


@pytest.mark.parametrize(
    "change",
    [
        {"req_pool_indices": [1, 2]},
        {"req_pool_indices": torch.tensor([[1, 2]])},
        {"write_req_capacity": 1},
        {"write_req_capacity": 2.0},
        {"verify_capacity": 2**63},
        {"verify_capacity": True},
    ],
    ids=str,
)
def test_without_buffers_what_is_not_plain_is_left_to_the_rules(change: dict[str, Any]) -> None:
    assert not has_plain_inputs(replace(good(), **change))


def test_an_empty_batch_needs_room_for_one() -> None:
    nothing = torch.empty(0, dtype=torch.int64)
    empty = replace(
        good(),
        req_pool_indices=nothing,
        prefix_lens=nothing,
        extend_seq_lens=nothing,
        req_to_verify_expected_tokens_valid_lens=nothing,
    )
    assert has_plain_inputs(replace(empty, write_req_capacity=1))
    assert not has_plain_inputs(replace(empty, write_req_capacity=0))


def test_resident_tables_are_together_wherever_the_batch_is() -> None:
    inputs = good()
    away = {name: getattr(inputs, name).to("meta") for name in TABLES}
    assert has_plain_inputs(replace(inputs, **away, resident=True))
    assert not has_plain_inputs(replace(inputs, **away))
    assert not has_plain_inputs(replace(inputs, **away | {"req_to_token": inputs.req_to_token}, resident=True))


def test_an_empty_batch_needs_room_for_one_in_its_buffers_too() -> None:
    nothing = torch.empty(0, dtype=torch.int64)
    inputs = PlanInputs(
        nothing, nothing, nothing, torch.zeros((1, 1), dtype=INT32), verify_capacity=9, write_req_capacity=0
    )
    buffers = good_buffers() | {"write_offsets": torch.empty(1, dtype=torch.int64), "seeds": nothing}
    assert is_refused(inputs)
    assert not has_plain_form(inputs, **buffers)
