"""The computer of plans: the warm-up covers every kernel variant, and limits hold before anything is computed."""

from typing import Any

import pytest
import torch

from service.errors import Refusal
from service.kernels.backend import Backend, Target, backend_named
from service.kernels.operands import PlanOperands
from service.plan.inputs import PlanInputs
from service.plan.transfer import Workspace
from service.runtime.computer import PlanComputer, PlanLimits

LIMITS = PlanLimits(max_requests=4, max_table_cells=12, max_verify_entries=6)


def _noting_backend(launched: list[PlanOperands]) -> Backend:
    host = backend_named("host")

    def launch_plan(operands: PlanOperands, *buffers: Any) -> None:
        launched.append(operands)
        host.launch_plan(operands, *buffers)

    return Backend("triton", launch_plan, host.launch_scatter)


def test_the_warm_up_runs_with_and_without_look_up_table_and_token_table() -> None:
    launched: list[PlanOperands] = []
    PlanComputer(Workspace(Target(torch.device("cpu"), _noting_backend(launched))), LIMITS).warm_up()
    variants = {
        (operands.full_to_swa_index_mapping is None, operands.req_to_verify_expected_tokens is None)
        for operands in launched
    }
    assert variants == {(True, True), (True, False), (False, True), (False, False)}


def test_what_else_is_to_be_compiled_is_compiled_before_the_count_is_taken() -> None:
    done: list[str] = []
    workspace = Workspace(Target(torch.device("cpu"), backend_named("host")))
    computer = PlanComputer(workspace, LIMITS, warm_up_others=(lambda: done.append(str(computer.compiled_by_warm_up)),))
    computer.warm_up()
    assert done == ["None"]
    assert computer.compiled_by_warm_up is not None


def test_what_is_over_a_limit_never_reaches_the_backend() -> None:
    launched: list[PlanOperands] = []
    computer = PlanComputer(Workspace(Target(torch.device("cpu"), _noting_backend(launched))), LIMITS)
    inputs = PlanInputs(
        req_pool_indices=torch.ones(3, dtype=torch.int64),
        prefix_lens=torch.full((3,), 3),
        extend_seq_lens=torch.ones(3, dtype=torch.int64),
        req_to_token=torch.zeros((2, 3), dtype=torch.int32),
    )
    with pytest.raises(Refusal) as caught:
        computer([inputs], True)
    assert caught.value.code == "plan-too-large"
    assert launched == []
    assert computer([inputs], False)[0].sizes.verify_total == 9


def test_the_groups_of_a_request_are_held_against_the_limits_together() -> None:
    computer = PlanComputer(Workspace(Target(torch.device("cpu"), backend_named("host"))), LIMITS)
    vector = torch.ones(2, dtype=torch.int64)
    inputs = PlanInputs(vector, vector, vector, torch.zeros((2, 3), dtype=torch.int32))
    assert len(computer([inputs] * 2, True)) == 2
    for with_entries in (True, False):
        with pytest.raises(Refusal) as caught:
            computer([inputs] * 3, with_entries)
        assert caught.value.detail == (
            "write_req_capacity of all groups=6 exceeds the limit of 4 requests (KV_PLAN_MAX_REQUESTS)"
        )
    nothing = torch.empty(0, dtype=torch.int64)
    assert len(computer([PlanInputs(nothing, nothing, nothing, inputs.req_to_token)] * 5, True)) == 5
