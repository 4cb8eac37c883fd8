"""The validator: every rule, and the order in which rules win."""

import itertools
from dataclasses import replace
from typing import Any

import pytest
import torch

from service.errors import InvalidInput
from service.kernels.backend import BackendName, Target, backend_named
from service.plan.inputs import PlanInputs
from service.plan.planner import judge
from tests.cases import Case, inputs_of, load_cases
from tests.kernels.harness import BACKENDS, device_of
from tests.planning import compute_plan

INT32 = torch.int32
LUT = "full_to_swa_index_mapping"
TOKENS = "req_to_verify_expected_tokens"
VALID_LENS = "req_to_verify_expected_tokens_valid_lens"
OFFSET = "kv_token_id_vs_position_offset"


def good() -> PlanInputs:
    """Two requests with every optional input given."""
    return PlanInputs(
        req_pool_indices=torch.tensor([1, 2]),
        prefix_lens=torch.tensor([3, 2]),
        extend_seq_lens=torch.tensor([1, 1]),
        req_to_token=torch.arange(24).reshape(4, 6).to(INT32),
        swa_window_size=2**63 - 1,
        full_to_swa_index_mapping=torch.arange(24),
        verify_capacity=9,
        write_req_capacity=2,
        req_to_verify_expected_tokens=torch.arange(24).reshape(4, 6).to(INT32),
        req_to_verify_expected_tokens_valid_lens=torch.tensor([3, 2]),
    )


def message_of(inputs: PlanInputs) -> str:
    """What the validator says; empty when it accepts."""
    try:
        judge(inputs)
    except InvalidInput as error:
        return str(error)
    return ""


def test_good_inputs_are_accepted() -> None:
    assert message_of(good()) == ""


def test_resident_tables_may_be_on_another_device_than_the_batch() -> None:
    inputs = good()
    away: dict[str, Any] = {name: getattr(inputs, name).to("meta") for name in ("req_to_token", LUT, TOKENS)}
    assert (
        message_of(replace(inputs, **away))
        == "kv-canary: req_to_token must be on req_pool_indices's device cpu, got meta"
    )
    assert message_of(replace(inputs, **away, resident=True)) == ""
    lens = inputs.prefix_lens.to("meta")
    assert "prefix_lens must be on" in message_of(replace(inputs, **away, prefix_lens=lens, resident=True))


DECODED = [case for case in load_cases("error") if not case.id.startswith(("dtype_", "elem_", "ragged_"))]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("case", DECODED, ids=lambda case: case.id)
def test_an_error_case_has_the_contracts_message(case: Case, backend: BackendName, kernel_device: torch.device) -> None:
    inputs = inputs_of(case.request)
    with pytest.raises(ValueError, match="kv-canary: ") as raised:
        compute_plan(
            judge(inputs), Target(device_of(backend, kernel_device), backend_named(backend)), with_entries=True
        )
    assert str(raised.value) == case.detail


def tall(values: list[int]) -> torch.Tensor:
    """A vector whose elements lie apart in memory."""
    return torch.tensor([[value, 0] for value in values])[:, 0]


Rule = tuple[dict[str, Any], str]
RULES: list[Rule] = [
    ({"swa_window_size": None}, "swa_window_size must be an integer, got null"),
    ({"swa_window_size": 2**63}, "swa_window_size value 9223372036854775808 does not fit torch.int64"),
    ({"verify_capacity": 9.0}, "verify_capacity must be an integer, got float"),
    ({"write_req_capacity": [2]}, "write_req_capacity must be an integer, got object"),
    ({OFFSET: True}, f"{OFFSET} must be an integer, got bool"),
    ({OFFSET: -(2**31) - 1}, f"{OFFSET} value -2147483649 does not fit torch.int32"),
    (
        {LUT: None},
        "launch_canary_plan_kernels requires full_to_swa_index_mapping when swa_window_size > 0",
    ),
    (
        {VALID_LENS: None},
        "launch_canary_plan_kernels requires req_to_verify_expected_tokens_valid_lens "
        "when req_to_verify_expected_tokens is set",
    ),
    ({"verify_capacity": 0}, "VerifyPlan verify_capacity must be positive, got 0"),
    ({"write_req_capacity": -1}, "WritePlan write_req_capacity must be positive, got -1"),
    ({"prefix_lens": tall([3, 2])}, "prefix_lens must be contiguous"),
    ({"req_to_token": torch.zeros((6, 4), dtype=INT32).T}, "req_to_token must be contiguous"),
    ({"prefix_lens": torch.tensor([3, 2], dtype=INT32)}, "prefix_lens must have dtype torch.int64, got torch.int32"),
    ({"req_to_token": torch.zeros(4, 6)}, "req_to_token must have dtype torch.int32, got torch.float32"),
    ({"req_pool_indices": torch.tensor(1)}, "req_pool_indices must be 1-D, got shape ()"),
    ({"extend_seq_lens": torch.tensor([[1], [1]])}, "extend_seq_lens must be 1-D, got shape (2, 1)"),
    ({"extend_seq_lens": torch.tensor([1])}, "extend_seq_lens length must be 2, got 1"),
    ({"req_to_token": torch.zeros(4, dtype=INT32)}, "req_to_token must be 2-D, got shape (4,)"),
    ({LUT: torch.zeros((1, 1), dtype=torch.int64)}, f"{LUT} must be 1-D, got shape (1, 1)"),
    ({LUT: torch.tensor([], dtype=torch.int64)}, f"{LUT} length must be >= 1, got 0"),
    ({TOKENS: torch.zeros(4, dtype=INT32)}, f"{TOKENS} must be 2-D, got shape (4,)"),
    ({VALID_LENS: torch.tensor([1, 2, 3])}, f"{VALID_LENS} length must be 2, got 3"),
    ({"write_req_capacity": 1}, "bs=2 exceeds write_req_capacity=1"),
    (
        {"prefix_lens": torch.empty(2, dtype=torch.int64, device="meta")},
        "prefix_lens must be on req_pool_indices's device cpu, got meta",
    ),
    ({"req_pool_indices": torch.tensor([1, 4])}, "req_pool_indices[1]=4 is outside req_to_token rows [0, 4)"),
    ({"req_pool_indices": torch.tensor([-1, 9])}, "req_pool_indices[0]=-1 is outside req_to_token rows [0, 4)"),
    ({TOKENS: torch.zeros((2, 6), dtype=INT32)}, f"req_pool_indices[1]=2 is outside {TOKENS} rows [0, 2)"),
    ({"prefix_lens": torch.tensor([3, 7])}, "prefix_lens[1]=7 exceeds req_to_token columns 6"),
    (
        {"prefix_lens": torch.tensor([2**63 - 1, 7])},
        "prefix_lens[0]=9223372036854775807 exceeds req_to_token columns 6",
    ),
    ({"extend_seq_lens": torch.tensor([2**63 - 1, 1])}, "extend_seq_lens sum exceeds int64"),
    ({"extend_seq_lens": torch.tensor([2**63 - 1, 2**63 - 1])}, "extend_seq_lens sum exceeds int64"),
    ({VALID_LENS: torch.tensor([0, 7])}, f"{VALID_LENS}[1]=7 exceeds {TOKENS} columns 6"),
]


@pytest.mark.parametrize(("change", "message"), RULES, ids=[message for _, message in RULES])
def test_a_broken_rule_is_named(change: dict[str, Any], message: str) -> None:
    assert message_of(replace(good(), **change)) == f"kv-canary: {message}"


PAIRS = [(a, b) for a, b in itertools.combinations(RULES, 2) if not a[0].keys() & b[0].keys()]


@pytest.mark.parametrize(("first", "second"), PAIRS, ids=[f"{a[1]} / {b[1]}" for a, b in PAIRS])
def test_of_two_broken_rules_the_earlier_one_wins(first: Rule, second: Rule) -> None:
    (early, message), (late, _) = first, second
    assert message_of(replace(good(), **late, **early)) == f"kv-canary: {message}"


ACCEPTED: list[dict[str, Any]] = [
    {"extend_seq_lens": torch.tensor([2**63 - 2, 1])},
    {"extend_seq_lens": torch.tensor([-(2**63), 2**63 - 1])},
    {"prefix_lens": torch.tensor([6, -(2**63)])},
    {"req_to_verify_expected_tokens_valid_lens": torch.tensor([6, -(2**63)])},
    {"swa_window_size": -(2**63)},
    {"swa_window_size": 2**63 - 1},
    {"req_pool_indices": torch.tensor([1, 0]), "prefix_lens": torch.tensor([3, 2**63 - 1])},
    {"req_pool_indices": torch.tensor([1, 0]), "extend_seq_lens": torch.tensor([2**63 - 1, 2**63 - 1])},
    {"req_to_verify_expected_tokens": None, "req_to_verify_expected_tokens_valid_lens": torch.zeros((3, 3))},
    {
        "req_to_verify_expected_tokens": torch.zeros((2, 6), dtype=INT32),
        "req_to_verify_expected_tokens_valid_lens": torch.tensor([3, 0]),
    },
    {
        "req_to_verify_expected_tokens": torch.zeros((2, 6), dtype=INT32),
        "kv_token_id_vs_position_offset": 2,
    },
    {"req_to_verify_expected_tokens": torch.zeros((2, 6), dtype=INT32), "prefix_lens": torch.tensor([3, 0])},
]


@pytest.mark.parametrize("change", ACCEPTED, ids=str)
def test_what_is_not_used_is_not_judged(change: dict[str, Any]) -> None:
    assert message_of(replace(good(), **change)) == ""


def test_of_two_bad_rows_the_earlier_one_is_named_whichever_table_it_misses() -> None:
    inputs = replace(good(), req_to_verify_expected_tokens=torch.zeros((1, 6), dtype=INT32))
    early_tokens = replace(inputs, req_pool_indices=torch.tensor([1, 9]))
    assert "[0]=1 is outside req_to_verify_expected_tokens" in message_of(early_tokens)
    early_table = replace(inputs, req_pool_indices=torch.tensor([9, 1]))
    assert "[0]=9 is outside req_to_token rows" in message_of(early_table)


def test_a_batch_is_read_again_unless_it_is_the_same_one() -> None:
    one, two = good(), good()
    job = judge(one)
    assert judge(replace(one, swa_window_size=0), job).batch.rows is job.batch.rows
    other = judge(replace(two, swa_window_size=0), job).batch
    assert other.rows is not job.batch.rows
    assert other.rows.tolist() == job.batch.rows.tolist()
