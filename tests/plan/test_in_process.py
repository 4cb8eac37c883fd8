"""The in-process API: what engines call, on whatever device the tensors are."""

from collections.abc import Callable
from dataclasses import fields
from typing import Any

import pytest
import torch

from service.plan import (
    VerifyPlan,
    WritePlan,
    launch_canary_plan_kernels,
    launch_canary_plan_kernels_torch_reference,
)
from service.plan.inputs import PlanInputs
from service.plan.planner import judge
from tests.batches import Shape, draw_batch
from tests.cases import Case, inputs_of, load_cases
from tests.kernels.harness import POISON

Launch = Callable[..., None]
LAUNCHES = [launch_canary_plan_kernels, launch_canary_plan_kernels_torch_reference]


def poisoned(verify_capacity: int, write_req_capacity: int, device: torch.device) -> tuple[VerifyPlan, WritePlan]:
    """Buffers in which an element that was not written shows."""
    verify = VerifyPlan.allocate(verify_capacity=verify_capacity, device=device)
    write = WritePlan.allocate(write_req_capacity=write_req_capacity, device=device)
    for plan in (verify, write):
        for field in fields(plan):
            getattr(plan, field.name).fill_(POISON)
    return verify, write


def arguments(inputs: PlanInputs, device: torch.device) -> dict[str, Any]:
    """The keyword arguments of a launch, buffers aside."""
    ours = ("verify_capacity", "write_req_capacity", "resident", "loc")
    names = [field.name for field in fields(inputs) if field.name not in ours]
    values = {name: getattr(inputs, name) for name in names}
    return {k: v.to(device) if isinstance(v, torch.Tensor) else v for k, v in values.items()}


def launched(launch: Launch, inputs: PlanInputs, device: torch.device) -> tuple[VerifyPlan, WritePlan]:
    """The plans of a batch, in buffers with some spare room."""
    sizes = judge(inputs).sizes
    capacity = sizes.verify_capacity if inputs.verify_capacity is not None else sizes.verify_capacity + 3
    verify, write = poisoned(min(capacity, 100_000), sizes.write_req_capacity, device)
    launch(
        verify_plan_out=verify,
        write_plan_out=write,
        verify_capacity=verify.verify_slot_indices.shape[0],
        **arguments(inputs, device),
    )
    return verify, write


def answer_of(verify: VerifyPlan, write: WritePlan, bs: int) -> dict[str, Any]:
    """The plans as a case writes them; whatever lies beyond the valid counts must be untouched."""
    enabled = bool(verify.enable.item())
    used = int(verify.verify_num_valid.item()) if enabled else 0
    answer: dict[str, Any] = {"verify_num_valid": int(verify.verify_num_valid.item()), "verify_enable": enabled}
    for name in ("slot_indices", "expected_tokens", "expected_positions", "prev_slot_indices"):
        column = getattr(verify, f"verify_{name}")
        assert (column[used:] == POISON).all()
        answer[f"verify_{name}"] = column[:used].tolist()
    assert (write.write_seed_slot_indices[bs:] == POISON).all()
    return answer | {
        "write_offsets": write.write_offsets.tolist(),
        "write_seed_slot_indices": write.write_seed_slot_indices[:bs].tolist(),
        "write_num_valid_reqs": int(write.write_num_valid_reqs.item()),
    }


@pytest.mark.parametrize("launch", LAUNCHES)
@pytest.mark.parametrize("case", load_cases("plan"), ids=lambda case: case.id)
def test_a_case_is_planned_as_the_original_does(case: Case, launch: Launch, kernel_device: torch.device) -> None:
    inputs = inputs_of(case.request)
    assert answer_of(*launched(launch, inputs, kernel_device), inputs.bs) == case.response


@pytest.mark.parametrize("seed", range(4))
def test_the_launch_equals_the_reference(seed: int, kernel_device: torch.device) -> None:
    inputs = draw_batch(Shape(bs=50, lut=True, window=7, tokens=True, token_offset=1), seed)
    answers = [answer_of(*launched(launch, inputs, kernel_device), inputs.bs) for launch in LAUNCHES]
    assert answers[0] == answers[1]


def test_a_reused_buffer_has_no_offsets_of_a_larger_batch_left(kernel_device: torch.device) -> None:
    verify, write = poisoned(64, 8, kernel_device)
    for bs in (8, 3):
        inputs = draw_batch(Shape(bs=bs, cols=4, padding=0), seed=bs)
        launch_canary_plan_kernels(
            verify_plan_out=verify, write_plan_out=write, verify_capacity=64, **arguments(inputs, kernel_device)
        )
    assert write.write_offsets[4:].tolist() == [0] * 5


def refused(inputs: PlanInputs, buffers: tuple[VerifyPlan, WritePlan], launch: Launch, **changes: Any) -> str:
    """The message of a launch that must be refused, and must leave the buffers as they were."""
    held = [getattr(plan, field.name) for plan in buffers for field in fields(plan)]
    held = [tensor for tensor in held if isinstance(tensor, torch.Tensor) and tensor.device == CPU]
    before = [tensor.clone() for tensor in held]
    keywords = {"verify_capacity": buffers[0].verify_slot_indices.shape[0], **arguments(inputs, torch.device("cpu"))}
    with pytest.raises(ValueError, match="kv-canary: ") as raised:
        launch(verify_plan_out=buffers[0], write_plan_out=buffers[1], **keywords | changes)
    assert all(torch.equal(a, b) for a, b in zip(before, held, strict=True))
    return str(raised.value)


CPU = torch.device("cpu")
BATCH = PlanInputs(
    req_pool_indices=torch.tensor([1, 2]),
    prefix_lens=torch.tensor([3, 2]),
    extend_seq_lens=torch.tensor([1, 1]),
    req_to_token=torch.arange(24).reshape(4, 6).to(torch.int32),
)


@pytest.mark.parametrize("launch", LAUNCHES)
def test_the_refused_caller_is_named(launch: Launch) -> None:
    name = launch.__name__
    buffers = poisoned(9, 2, CPU)
    window = refused(BATCH, buffers, launch, swa_window_size=1)
    assert window == f"kv-canary: {name} requires full_to_swa_index_mapping when swa_window_size > 0"
    assert refused(BATCH, buffers, launch, verify_capacity=8) == (
        f"kv-canary: {name} verify_capacity=8 does not match verify_plan_out.verify_slot_indices.shape[0]=9"
    )


@pytest.mark.parametrize("launch", LAUNCHES)
def test_values_on_the_cpu_are_judged_before_anything_is_written(launch: Launch) -> None:
    buffers = poisoned(9, 2, CPU)
    row = refused(BATCH, buffers, launch, req_pool_indices=torch.tensor([1, 4]))
    assert row == "kv-canary: req_pool_indices[1]=4 is outside req_to_token rows [0, 4)"
    for lut in (torch.arange(8), torch.arange(13)):
        slot = refused(BATCH, buffers, launch, full_to_swa_index_mapping=lut)
        assert slot == f"kv-canary: SWA slot {8 if len(lut) == 8 else 13} is outside {LUT} length {len(lut)}"


IN_PROCESS_ERRORS = [
    case
    for case in load_cases("error")
    # Faults of the JSON, capacities that no buffer can have, and a capacity that the buffers decide.
    if not case.id.startswith(("dtype_", "elem_", "ragged_", "verify_capacity_", "write_capacity_", "order_positivity"))
]


@pytest.mark.parametrize("case", IN_PROCESS_ERRORS, ids=lambda case: case.id)
def test_an_error_case_has_the_contracts_message(case: Case) -> None:
    inputs = inputs_of(case.request)
    buffers = poisoned(inputs.verify_capacity or 9, inputs.write_req_capacity or 9, CPU)
    assert refused(inputs, buffers, launch_canary_plan_kernels) == case.detail


LUT = "full_to_swa_index_mapping"


def test_a_buffer_of_the_wrong_form_is_named() -> None:
    def message(**changes: Any) -> str:
        verify, write = poisoned(9, 2, CPU)
        parts = {field.name: getattr(plan, field.name) for plan in (verify, write) for field in fields(plan)} | changes
        verify = VerifyPlan(**{field.name: parts[field.name] for field in fields(VerifyPlan)})
        write = WritePlan(**{field.name: parts[field.name] for field in fields(WritePlan)})
        return refused(BATCH, (verify, write), launch_canary_plan_kernels)

    int64 = torch.int64
    for name, plan in (("verify_num_valid", "verify"), ("write_offsets", "write")):
        assert message(**{name: [1]}) == f"kv-canary: {plan}_plan_out.{name} must be a tensor, got list"
    assert message(write_seed_slot_indices=None) == (
        "kv-canary: write_plan_out.write_seed_slot_indices must be a tensor, got NoneType"
    )
    assert message(verify_expected_tokens=torch.zeros(8, dtype=int64)) == (
        "kv-canary: verify_plan_out.verify_expected_tokens length must be 9, got 8"
    )
    assert message(enable=torch.ones(1, dtype=int64)) == (
        "kv-canary: verify_plan_out.enable must have dtype torch.int32, got torch.int64"
    )
    assert message(write_offsets=torch.zeros(6, dtype=int64)[::2]) == (
        "kv-canary: write_plan_out.write_offsets must be contiguous"
    )
    assert message(write_num_valid_reqs=torch.zeros(1, dtype=torch.int32, device="meta")) == (
        "kv-canary: write_plan_out.write_num_valid_reqs must be on req_pool_indices's device cpu, got meta"
    )


def test_capacities_must_be_positive() -> None:
    with pytest.raises(ValueError, match=r"^kv-canary: VerifyPlan verify_capacity must be positive, got 0$"):
        VerifyPlan.allocate(verify_capacity=0, device=CPU)
    with pytest.raises(ValueError, match=r"^kv-canary: WritePlan write_req_capacity must be positive, got -2$"):
        WritePlan.allocate(write_req_capacity=-2, device=CPU)


def test_allocated_buffers_have_the_promised_shapes_dtypes_and_bytes() -> None:
    verify, write = (
        VerifyPlan.allocate(verify_capacity=5, device="cpu"),
        WritePlan.allocate(write_req_capacity=3, device=CPU),
    )
    assert verify.enable.tolist() == [1]
    for plan, expected in ((verify, VerifyPlan.allocation_bytes(5)), (write, WritePlan.allocation_bytes(3))):
        tensors = [getattr(plan, field.name) for field in fields(plan)]
        assert sum(tensor.numel() * tensor.element_size() for tensor in tensors) == expected
    verify.zero_for_testing_()
    assert verify.verify_expected_tokens.tolist() == [-1] * 5
    assert verify.verify_slot_indices.tolist() == [0] * 5
    assert verify.enable.tolist() == verify.verify_num_valid.tolist() == [0]
    assert write.zero_for_testing_().write_offsets.tolist() == [0] * 4
