"""Both backends against the cases, the reference and each other."""

from collections.abc import Callable
from dataclasses import asdict, replace

import pytest
import torch

from service.errors import InvalidInput
from service.kernels.backend import BackendName, Target, backend_named
from service.kernels.operands import INT64_MAX
from service.plan import VerifyPlan, WritePlan, launch_canary_plan_kernels
from service.plan.inputs import PlanInputs
from service.plan.planner import judge
from service.plan.reference import plan_reference
from tests.batches import Shape, draw_batch
from tests.cases import Case, inputs_of, load_cases
from tests.kernels.harness import BACKENDS, POISON, Filled, device_of, run_backend
from tests.planning import compute_plan


def assert_equals_reference(filled: Filled, inputs: PlanInputs) -> None:
    expected = asdict(plan_reference(inputs))
    expected |= {"write_num_valid_reqs": inputs.bs, "faults": [INT64_MAX, INT64_MAX]}
    assert asdict(filled) == expected


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("case", load_cases("plan"), ids=lambda case: case.id)
def test_a_case_is_planned_as_the_original_does(case: Case, backend: BackendName, kernel_device: torch.device) -> None:
    inputs = inputs_of(case.request)
    filled = run_backend(backend, inputs, device_of(backend, kernel_device))
    assert {name: getattr(filled, name) for name in case.response} == case.response
    assert_equals_reference(filled, inputs)


SHAPES = [
    Shape(bs=0),
    Shape(bs=1),
    Shape(bs=7, cols=1),
    Shape(bs=33, lut=True),
    Shape(bs=33, lut=True, window=5),
    Shape(bs=33, lut=True, window=2**62),
    Shape(bs=33, tokens=True),
    Shape(bs=33, tokens=True, token_offset=1),
    Shape(bs=33, tokens=True, token_offset=-3, lut=True, window=4),
    Shape(bs=60, padding=1.0),
    Shape(bs=31, cols=300, tokens=True),
    Shape(bs=32, cols=200, lut=True, window=150),
    Shape(bs=255, cols=9),
    Shape(bs=256, cols=90, lut=True, tokens=True, token_offset=1),
    Shape(bs=257, cols=90, lut=True, tokens=True, token_offset=1),
    Shape(bs=1023, cols=3),
    Shape(bs=1024, cols=3, tokens=True),
    Shape(bs=1025, cols=3, lut=True, window=2),
    Shape(bs=4500, cols=2, lut=True),
]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_random_batch_equals_the_reference(
    shape: Shape, seed: int, backend: BackendName, kernel_device: torch.device
) -> None:
    inputs = draw_batch(shape, seed)
    assert_equals_reference(run_backend(backend, inputs, device_of(backend, kernel_device)), inputs)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("total", [255, 256, 257, 1023, 1024, 1025])
def test_entries_around_a_tile_border_are_all_written(
    total: int, backend: BackendName, kernel_device: torch.device
) -> None:
    inputs = PlanInputs(
        req_pool_indices=torch.tensor([2, 1]),
        prefix_lens=torch.tensor([total - 1, 1]),
        extend_seq_lens=torch.tensor([1, 1]),
        req_to_token=torch.randperm(3 * total).reshape(3, total).to(torch.int32),
    )
    assert_equals_reference(run_backend(backend, inputs, device_of(backend, kernel_device)), inputs)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("long", [[], [0], [700], [255, 256], [1099], [3, 4, 5, 600]], ids=str)
def test_blocks_of_requests_that_differ_much_share_their_entries(
    long: list[int], backend: BackendName, kernel_device: torch.device
) -> None:
    bs, cols = 1100, 1700
    rows = torch.arange(bs) % 7 + 1
    prefix_lens = torch.arange(bs) % 3
    prefix_lens[long] = cols
    inputs = PlanInputs(rows, prefix_lens, rows, torch.randperm(8 * cols).reshape(8, cols).to(torch.int32))
    assert_equals_reference(run_backend(backend, inputs, device_of(backend, kernel_device)), inputs)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("slack", [-2, -1, 0, 1])
def test_only_a_total_above_the_capacity_is_overflow(
    slack: int, backend: BackendName, kernel_device: torch.device
) -> None:
    inputs = draw_batch(Shape(bs=20, lut=True, tokens=True), seed=5)
    inputs = replace(inputs, verify_capacity=judge(inputs).sizes.verify_total + slack)
    filled = run_backend(backend, inputs, device_of(backend, kernel_device))
    assert_equals_reference(filled, inputs)
    assert filled.verify_enable is (slack >= 0)


@pytest.mark.parametrize("backend", BACKENDS)
def test_sums_of_lens_are_64_bit(backend: BackendName, kernel_device: torch.device) -> None:
    bs = 1500
    inputs = PlanInputs(
        req_pool_indices=torch.ones(bs, dtype=torch.int64),
        prefix_lens=torch.zeros(bs, dtype=torch.int64),
        extend_seq_lens=torch.full((bs,), 2**31 - 1),
        req_to_token=torch.zeros((2, 1), dtype=torch.int32),
    )
    filled = run_backend(backend, inputs, device_of(backend, kernel_device))
    assert filled.write_offsets == [r * (2**31 - 1) for r in range(bs + 1)]


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_total_beyond_32_bits_overflows_and_is_told(backend: BackendName, kernel_device: torch.device) -> None:
    bs, cols = 1500, 2**21
    inputs = PlanInputs(
        req_pool_indices=torch.ones(bs, dtype=torch.int64),
        prefix_lens=torch.full((bs,), cols),
        extend_seq_lens=torch.ones(bs, dtype=torch.int64),
        req_to_token=torch.arange(2 * cols, dtype=torch.int32).reshape(2, cols),
        verify_capacity=1,
    )
    plan = compute_plan(
        judge(inputs), Target(device_of(backend, kernel_device), backend_named(backend)), with_entries=True
    )
    assert not plan.sizes.enabled
    assert plan.verify_offsets.tolist() == [r * cols for r in range(bs + 1)]
    assert plan.write_seed_slot_indices.tolist() == [2 * cols - 1] * bs


@pytest.mark.gpu
def test_a_table_of_more_than_2_to_the_31_cells_is_addressed_right(kernel_device: torch.device) -> None:
    rows, cols = 2**11 + 1, 2**20
    table = torch.zeros((rows, cols), dtype=torch.int32, device=kernel_device)
    table[-1, -3:] = torch.tensor([7, 8, 9], dtype=torch.int32)
    verify = VerifyPlan.allocate(verify_capacity=2, device=kernel_device)
    write = WritePlan.allocate(write_req_capacity=1, device=kernel_device)
    launch_canary_plan_kernels(
        verify_plan_out=verify,
        write_plan_out=write,
        verify_capacity=2,
        req_pool_indices=torch.tensor([rows - 1], device=kernel_device),
        prefix_lens=torch.tensor([cols], device=kernel_device),
        extend_seq_lens=torch.tensor([1], device=kernel_device),
        req_to_token=table,
        swa_window_size=2,
        full_to_swa_index_mapping=torch.arange(10, device=kernel_device),
    )
    assert verify.verify_slot_indices.tolist() == [8, 9]
    assert verify.verify_prev_slot_indices.tolist() == [7, 8]
    assert write.write_seed_slot_indices.tolist() == [9]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("with_entries", [True, False])
@pytest.mark.parametrize("capacity", [None, 1])
@pytest.mark.parametrize("seed", range(12))
def test_the_first_slot_outside_the_lut_is_named(
    seed: int, capacity: int | None, with_entries: bool, backend: BackendName, kernel_device: torch.device
) -> None:
    inputs = draw_batch(Shape(bs=9, cols=12, lut=True, window=(0, 3)[seed % 2]), seed)
    inputs = replace(inputs, verify_capacity=capacity)
    torch.manual_seed(seed)
    hit = torch.rand(inputs.req_to_token.shape) < 0.02 * (seed % 4)
    inputs.req_to_token[hit] = torch.randint(inputs.lut_length, 2**31 - 1, (int(hit.sum()),)).to(torch.int32)
    device = device_of(backend, kernel_device)
    # Without entries only seeds are read, as on overflow.
    read = inputs if with_entries else replace(inputs, verify_capacity=1)
    expected = message_of(lambda: plan_reference(read))
    assert expected == message_of(
        lambda: compute_plan(judge(inputs), Target(device, backend_named(backend)), with_entries=with_entries)
    )


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("own", "before", "named"), [(3, 30, 30), (40, 30, 40), (3, 4, None)])
def test_a_window_head_looks_its_predecessor_up_after_itself(
    own: int, before: int, named: int | None, backend: BackendName, kernel_device: torch.device
) -> None:
    inputs = PlanInputs(
        req_pool_indices=torch.tensor([1]),
        prefix_lens=torch.tensor([3]),
        extend_seq_lens=torch.tensor([0]),
        req_to_token=torch.tensor([[0, 0, 0], [before, own, 5]], dtype=torch.int32),
        swa_window_size=2,
        full_to_swa_index_mapping=torch.arange(10),
    )
    target = Target(device_of(backend, kernel_device), backend_named(backend))
    message = "" if named is None else f"kv-canary: SWA slot {named} is outside full_to_swa_index_mapping length 10"
    assert message_of(lambda: compute_plan(judge(inputs), target, with_entries=True)) == message


def test_the_host_backend_that_finds_a_fault_writes_nothing_else() -> None:
    inputs = PlanInputs(
        req_pool_indices=torch.tensor([1]),
        prefix_lens=torch.tensor([2]),
        extend_seq_lens=torch.tensor([1]),
        req_to_token=torch.tensor([[0, 0], [1, 9]], dtype=torch.int32),
        full_to_swa_index_mapping=torch.arange(9),
    )
    filled = run_backend("host", inputs, torch.device("cpu"))
    assert filled.faults == [2, 0]
    assert filled.verify_offsets + filled.write_offsets + filled.write_seed_slot_indices == [POISON] * 5
    assert filled.verify_num_valid == filled.write_num_valid_reqs == POISON


def message_of(call: Callable[[], object]) -> str:
    """What the call is refused with; empty when it is not."""
    try:
        call()
    except InvalidInput as error:
        return str(error)
    return ""
