"""On a CUDA device the in-process API can be captured once and replayed on new inputs."""

from typing import Any

import pytest
import torch

from service.plan import VerifyPlan, WritePlan, launch_canary_plan_kernels, launch_scatter_req_token_ids_kernel
from service.plan.inputs import PlanInputs
from service.plan.reference import plan_reference
from tests.batches import Shape, draw_batch

SHAPE = Shape(bs=300, cols=70, lut=True, window=33, tokens=True, token_offset=1)
CAPACITY = 300 * 70


@pytest.mark.gpu
def test_a_captured_plan_follows_inputs_that_change_in_place(kernel_device: torch.device) -> None:
    first = draw_batch(SHAPE, seed=0)
    held: dict[str, Any] = {spec.name: tensor.to(kernel_device) for tensor, spec in first.tensors()}
    verify = VerifyPlan.allocate(verify_capacity=CAPACITY, device=kernel_device)
    write = WritePlan.allocate(write_req_capacity=310, device=kernel_device)

    def launch() -> None:
        launch_canary_plan_kernels(
            verify_plan_out=verify,
            write_plan_out=write,
            swa_window_size=SHAPE.window,
            verify_capacity=CAPACITY,
            kv_token_id_vs_position_offset=SHAPE.token_offset,
            **held,
        )

    launch()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        launch()
    for seed in range(5):
        batch = draw_batch(SHAPE, seed)
        for tensor, spec in batch.tensors():
            held[spec.name].copy_(tensor)
        verify.zero_for_testing_()
        write.zero_for_testing_()
        graph.replay()
        assert_equals_reference(verify, write, batch)


def assert_equals_reference(verify: VerifyPlan, write: WritePlan, batch: PlanInputs) -> None:
    expected = plan_reference(batch)
    total = expected.verify_offsets[-1]
    assert verify.verify_num_valid.tolist() == [total]
    assert verify.enable.tolist() == [1]
    assert verify.verify_slot_indices[:total].tolist() == expected.verify_slot_indices
    assert verify.verify_expected_tokens[:total].tolist() == expected.verify_expected_tokens
    assert verify.verify_expected_positions[:total].tolist() == expected.verify_expected_positions
    assert verify.verify_prev_slot_indices[:total].tolist() == expected.verify_prev_slot_indices
    assert write.write_offsets[: batch.bs + 1].tolist() == expected.write_offsets[: batch.bs + 1]
    assert write.write_offsets[batch.bs + 1 :].tolist() == [0] * (310 - batch.bs)
    assert write.write_seed_slot_indices[: batch.bs].tolist() == expected.write_seed_slot_indices


@pytest.mark.gpu
def test_a_captured_scatter_follows_inputs_that_change_in_place(kernel_device: torch.device) -> None:
    flat = torch.arange(6, device=kernel_device)
    offsets = torch.tensor([0, 2, 6], device=kernel_device)
    rows = torch.tensor([1, 2], device=kernel_device)
    pool = torch.zeros((4, 5), dtype=torch.int32, device=kernel_device)
    graph = torch.cuda.CUDAGraph()
    launch_scatter_req_token_ids_kernel(flat_in=flat, offsets=offsets, req_pool_indices=rows, pool_out=pool)
    with torch.cuda.graph(graph):
        launch_scatter_req_token_ids_kernel(flat_in=flat, offsets=offsets, req_pool_indices=rows, pool_out=pool)
    pool.zero_()
    flat += 10
    offsets.copy_(torch.tensor([0, 1, 6]))
    rows.copy_(torch.tensor([3, 0]))
    graph.replay()
    assert pool.tolist() == [[11, 12, 13, 14, 15], [0] * 5, [0] * 5, [10, 0, 0, 0, 0]]
