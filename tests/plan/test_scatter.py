"""The scatter in process: what it refuses, in which order, and that a refused call writes nothing."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from service.plan import launch_scatter_req_token_ids_kernel, scatter_req_token_ids_torch_reference

Launch = Callable[..., None]
LAUNCHES = [launch_scatter_req_token_ids_kernel, scatter_req_token_ids_torch_reference]
ROWS, COLS = 4, 3


def good() -> dict[str, Any]:
    return {
        "flat_in": torch.tensor([7, 8, 9]),
        "offsets": torch.tensor([0, 1, 3]),
        "req_pool_indices": torch.tensor([3, 1]),
        "pool_out": torch.zeros((ROWS, COLS), dtype=torch.int32),
    }


@pytest.mark.parametrize("launch", LAUNCHES)
def test_segments_are_stored_from_their_start_positions_and_cut_at_the_end(launch: Launch) -> None:
    arguments = good()
    launch(**arguments, start_positions=torch.tensor([3, 2]))
    assert arguments["pool_out"].tolist() == [[0, 0, 0], [0, 0, 8], [0, 0, 0], [0, 0, 0]]
    launch(**arguments)
    assert arguments["pool_out"].tolist() == [[0, 0, 0], [8, 9, 8], [0, 0, 0], [7, 0, 0]]


@pytest.mark.parametrize("launch", LAUNCHES)
def test_a_token_beyond_int32_keeps_its_low_32_bits(launch: Launch) -> None:
    arguments = good() | {"flat_in": torch.tensor([2**31, -(2**63) + 5, 2**32 - 1])}
    launch(**arguments)
    assert arguments["pool_out"][3].tolist() == [-(2**31), 0, 0]
    assert arguments["pool_out"][1].tolist() == [5, -1, 0]


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"flat_in": torch.zeros(6, dtype=torch.int64)[::2]}, "flat_in must be contiguous"),
    ({"flat_in": torch.tensor([[7, 8, 9]])}, "scatter_req_token_ids flat_in must be 1-D, got shape (1, 3)"),
    ({"start_positions": torch.tensor(1)}, "scatter_req_token_ids start_positions must be 1-D, got shape ()"),
    (
        {"pool_out": torch.zeros(3, dtype=torch.int32)},
        "scatter_req_token_ids pool_out must be 2-D, got shape (3,)",
    ),
    ({"offsets": torch.tensor([0, 3])}, "scatter_req_token_ids offsets length 2 != bs+1 (3)"),
    ({"start_positions": torch.tensor([0])}, "scatter_req_token_ids start_positions length 1 != bs (2)"),
    (
        {"offsets": torch.zeros(3, dtype=torch.int64, device="meta")},
        "offsets must be on flat_in's device cpu, got meta",
    ),
    *(
        (
            {"offsets": torch.tensor(offsets)},
            "scatter_req_token_ids offsets must start at 0, be non-decreasing and end at len(flat_in)=3",
        )
        for offsets in ([1, 1, 3], [0, 4, 3], [0, 1, 2], [0, 1, 4])
    ),
    (
        {"req_pool_indices": torch.tensor([1, 4])},
        "scatter_req_token_ids req_pool_indices[1]=4 is outside pool_out rows [0, 4)",
    ),
    (
        {"req_pool_indices": torch.tensor([-1, 1])},
        "scatter_req_token_ids req_pool_indices[0]=-1 is outside pool_out rows [0, 4)",
    ),
    ({"req_pool_indices": torch.tensor([2, 2])}, "scatter_req_token_ids duplicate row 2"),
    (
        {"start_positions": torch.tensor([3, 4])},
        "scatter_req_token_ids start_positions[1]=4 is outside pool_out columns [0, 3]",
    ),
    (
        {"start_positions": torch.tensor([-1, 0])},
        "scatter_req_token_ids start_positions[0]=-1 is outside pool_out columns [0, 3]",
    ),
]


@pytest.mark.parametrize("launch", LAUNCHES)
@pytest.mark.parametrize(("change", "message"), REFUSED, ids=[message for _, message in REFUSED])
def test_a_broken_rule_is_named_and_nothing_is_written(change: dict[str, Any], message: str, launch: Launch) -> None:
    arguments = good() | change
    with pytest.raises(ValueError, match=r"^kv-canary: ") as raised:
        launch(**arguments)
    assert str(raised.value) == f"kv-canary: {message}"
    assert not arguments["pool_out"].any()


@pytest.mark.parametrize("launch", LAUNCHES)
@pytest.mark.parametrize("name", ["flat_in", "offsets", "req_pool_indices", "pool_out", "start_positions"])
def test_a_wrong_dtype_is_a_type_error(name: str, launch: Launch) -> None:
    arguments = good() | {"start_positions": torch.tensor([0, 0])}
    arguments[name] = arguments[name].to(torch.int16)
    want = "int32" if name == "pool_out" else "int64"
    with pytest.raises(TypeError) as raised:
        launch(**arguments)
    assert str(raised.value) == f"kv-canary: scatter_req_token_ids {name} must be {want}, got torch.int16"
