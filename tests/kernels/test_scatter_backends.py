"""Both scatter backends against the cases and the reference."""

import random
from collections.abc import Callable

import pytest
import torch

from service.kernels.backend import BackendName, backend_named
from service.kernels.operands import ScatterOperands
from service.plan.scatter import launch_scatter_req_token_ids_kernel, scatter_req_token_ids_torch_reference
from tests.cases import Case, load_cases
from tests.kernels.harness import BACKENDS

GUARD_ROWS = 2
POISON = -77


def scatter(name: BackendName, operands: ScatterOperands, kernel_device: torch.device) -> torch.Tensor:
    """The table after the scatter; guard rows around it must survive."""
    device = kernel_device if name == "triton" else torch.device("cpu")
    rows, cols = operands.pool_out.shape
    whole = torch.full((rows + 2 * GUARD_ROWS, cols), POISON, dtype=torch.int32, device=device)
    pool = whole[GUARD_ROWS : GUARD_ROWS + rows]
    pool.copy_(operands.pool_out)
    starts = operands.start_positions
    backend_named(name).launch_scatter(
        ScatterOperands(
            operands.flat_in.to(device),
            operands.offsets.to(device),
            operands.req_pool_indices.to(device),
            None if starts is None else starts.to(device),
            pool,
        )
    )
    assert (whole[:GUARD_ROWS] == POISON).all()
    assert (whole[-GUARD_ROWS:] == POISON).all()
    return pool.cpu()


def reference(operands: ScatterOperands) -> torch.Tensor:
    """The table after the slow scatter."""
    pool = operands.pool_out.clone()
    scatter_req_token_ids_torch_reference(
        flat_in=operands.flat_in,
        offsets=operands.offsets,
        req_pool_indices=operands.req_pool_indices,
        pool_out=pool,
        start_positions=operands.start_positions,
    )
    return pool


def draw(bs: int, cols: int, seed: int, starts: bool = False) -> ScatterOperands:
    rng = random.Random(seed)  # noqa: S311
    lens = [rng.choice([0, 1, cols, cols + 3, rng.randint(0, cols)]) for _ in range(bs)]
    torch.manual_seed(seed)
    return ScatterOperands(
        flat_in=torch.randint(-(2**62), 2**62, (sum(lens),)),
        offsets=torch.tensor([0, *lens]).cumsum(0),
        req_pool_indices=torch.randperm(bs + 4)[:bs],
        start_positions=torch.tensor([rng.randint(0, cols) for _ in range(bs)], dtype=torch.int64) if starts else None,
        pool_out=torch.randint(0, 2**31 - 1, (bs + 4, cols)).to(torch.int32),
    )


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("case", load_cases("scatter"), ids=lambda case: case.id)
def test_a_case_is_scattered_as_the_original_does(
    case: Case, backend: BackendName, kernel_device: torch.device
) -> None:
    request = case.request
    operands = ScatterOperands(
        flat_in=torch.tensor(request["flat_in"], dtype=torch.int64),
        offsets=torch.tensor(request["offsets"], dtype=torch.int64),
        req_pool_indices=torch.tensor(request["req_pool_indices"], dtype=torch.int64),
        start_positions=None,
        pool_out=torch.tensor(request["pool_out"], dtype=torch.int32),
    )
    assert scatter(backend, operands, kernel_device).tolist() == case.response["pool_out"]


@pytest.mark.parametrize("launch", [launch_scatter_req_token_ids_kernel, scatter_req_token_ids_torch_reference])
@pytest.mark.parametrize("case", load_cases("scatter"), ids=lambda case: case.id)
def test_a_case_is_scattered_through_the_in_process_api(
    case: Case, launch: Callable[..., None], kernel_device: torch.device
) -> None:
    vectors = ("flat_in", "offsets", "req_pool_indices")
    arguments = {name: torch.tensor(case.request[name], dtype=torch.int64, device=kernel_device) for name in vectors}
    pool = torch.tensor(case.request["pool_out"], dtype=torch.int32, device=kernel_device)
    launch(pool_out=pool, **arguments)
    assert pool.tolist() == case.response["pool_out"]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("starts", [False, True])
@pytest.mark.parametrize(("bs", "cols"), [(0, 4), (1, 1), (3, 1023), (3, 1024), (3, 1025), (40, 7), (1100, 3), (5, 0)])
def test_random_segments_equal_the_reference(
    bs: int, cols: int, starts: bool, backend: BackendName, kernel_device: torch.device
) -> None:
    operands = draw(bs, cols, seed=bs + cols, starts=starts)
    assert torch.equal(scatter(backend, operands, kernel_device), reference(operands))
