"""On a device other than the CPU a call only launches. A tensor of the meta device has no element to read."""

import pytest
import torch

from service.kernels.backend import Backend
from service.kernels.operands import EntryBuffers, OffsetBuffers, PlanOperands, ScatterOperands
from service.plan import (
    VerifyPlan,
    WritePlan,
    in_process,
    launch_canary_plan_kernels,
    launch_scatter_req_token_ids_kernel,
    scatter,
)

META = torch.device("meta")


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> list[PlanOperands | ScatterOperands]:
    """What was handed to the backend."""
    seen: list[PlanOperands | ScatterOperands] = []

    def launch_plan(operands: PlanOperands, _offsets: OffsetBuffers, _entries: EntryBuffers | None) -> None:
        seen.append(operands)

    backend = Backend("triton", launch_plan, seen.append)
    for module in (in_process, scatter):
        monkeypatch.setattr(module, "backend_for", lambda _device: backend)
    return seen


def vector(length: int) -> torch.Tensor:
    return torch.empty(length, dtype=torch.int64, device=META)


def table(rows: int, cols: int) -> torch.Tensor:
    return torch.empty((rows, cols), dtype=torch.int32, device=META)


def test_a_plan_is_launched_without_reading_an_element(launched: list[PlanOperands | ScatterOperands]) -> None:
    launch_canary_plan_kernels(
        verify_plan_out=VerifyPlan.allocate(verify_capacity=9, device=META),
        write_plan_out=WritePlan.allocate(write_req_capacity=3, device=META),
        verify_capacity=9,
        req_pool_indices=vector(2),
        prefix_lens=vector(2),
        extend_seq_lens=vector(2),
        req_to_token=table(4, 6),
        swa_window_size=2,
        full_to_swa_index_mapping=vector(24),
        req_to_verify_expected_tokens=table(4, 6),
        req_to_verify_expected_tokens_valid_lens=vector(2),
    )
    (operands,) = launched
    assert all(tensor.device == META for tensor in operands if isinstance(tensor, torch.Tensor))


def test_a_scatter_is_launched_without_reading_an_element(launched: list[PlanOperands | ScatterOperands]) -> None:
    launch_scatter_req_token_ids_kernel(
        flat_in=vector(3), offsets=vector(3), req_pool_indices=vector(2), pool_out=table(4, 6)
    )
    assert len(launched) == 1
