"""What the kernels do with values that nobody judged: they read nothing out of range and yield slot -1."""

import pytest
import torch

from service.kernels.backend import backend_named
from service.kernels.operands import INT64_MAX, PlanOperands, ScatterOperands
from tests.kernels.harness import run_operands

pytestmark = pytest.mark.triton

TABLE = torch.tensor([[0, 0, 0], [11, 12, 13], [21, 22, 23]], dtype=torch.int32)
EXTREMES = (-(2**63), -1, 3, 2**31, 2**62, 2**63 - 1)


def operands(device: torch.device, rows: list[int], prefix: list[int], extend: list[int]) -> PlanOperands:
    return PlanOperands(
        req_pool_indices=torch.tensor(rows, device=device),
        prefix_lens=torch.tensor(prefix, device=device),
        extend_seq_lens=torch.tensor(extend, device=device),
        req_to_token=TABLE.to(device),
        full_to_swa_index_mapping=None,
        req_to_verify_expected_tokens=None,
        req_to_verify_expected_tokens_valid_lens=None,
        swa_window_size=0,
        kv_token_id_vs_position_offset=0,
        verify_capacity=20,
    )


@pytest.mark.parametrize("row", EXTREMES)
def test_a_row_outside_the_table_yields_no_slot(row: int, kernel_device: torch.device) -> None:
    filled = run_operands("triton", operands(kernel_device, [row, 2], [2, 1], [1, 1]), 20, 2)
    assert filled.verify_slot_indices == [-1, -1, 21]
    assert filled.verify_prev_slot_indices == [-1, -1, -1]
    assert filled.verify_expected_positions == [0, 1, 0]
    assert filled.write_seed_slot_indices == [-1, 21]


def test_positions_beyond_the_columns_yield_no_slot(kernel_device: torch.device) -> None:
    filled = run_operands("triton", operands(kernel_device, [1], [6], [1]), 20, 1)
    assert filled.verify_slot_indices == [11, 12, 13, -1, -1, -1]
    assert filled.verify_prev_slot_indices == [-1, 11, 12, 13, -1, -1]
    assert filled.write_seed_slot_indices == [-1]


@pytest.mark.parametrize("prefix", [2**31, 2**62, 2**63 - 1])
def test_a_garbage_prefix_overflows_and_writes_no_entry(prefix: int, kernel_device: torch.device) -> None:
    batch = operands(kernel_device, [1] * 7 + [2], [prefix] * 7 + [1], [1] * 8)
    filled = run_operands("triton", batch, 20, 8)
    assert filled.verify_enable is False
    assert filled.verify_num_valid == 20
    assert filled.write_offsets == list(range(9))
    assert filled.write_seed_slot_indices == [-1] * 7 + [21]


@pytest.mark.gpu  # eight million requests are too many for the interpreter
def test_garbage_prefixes_never_add_up_to_a_plan_that_fits(kernel_device: torch.device) -> None:
    bs = 2**23  # so many of the longest would wrap a 64-bit sum
    batch = operands(kernel_device, [1], [2**63 - 1], [0])
    many = batch._replace(
        req_pool_indices=batch.req_pool_indices.repeat(bs),
        prefix_lens=batch.prefix_lens.repeat(bs),
        extend_seq_lens=batch.extend_seq_lens.repeat(bs),
    )
    filled = run_operands("triton", many, 20, bs)
    assert filled.verify_enable is False
    assert filled.verify_num_valid == 20
    assert filled.verify_offsets[-1] == 2**62


def test_a_slot_outside_the_lut_becomes_minus_1_and_is_reported(kernel_device: torch.device) -> None:
    batch = operands(kernel_device, [1, 2], [3, 2], [1, 1])._replace(
        full_to_swa_index_mapping=torch.arange(100, 113, device=kernel_device),
    )
    faults = run_operands("triton", batch, 20, 2).faults
    assert faults == [2 * 2, 0]
    assert run_operands("triton", batch._replace(verify_capacity=1), 20, 2).faults == [INT64_MAX, 0]


@pytest.mark.parametrize("valid_len", EXTREMES)
@pytest.mark.parametrize("shift", [-(2**31), 0, 2**31 - 1])
def test_a_token_outside_the_token_table_is_not_expected(
    valid_len: int, shift: int, kernel_device: torch.device
) -> None:
    batch = operands(kernel_device, [1, 2], [2, 2], [1, 1])._replace(
        req_to_verify_expected_tokens=torch.tensor([[5], [6]], dtype=torch.int32, device=kernel_device),
        req_to_verify_expected_tokens_valid_lens=torch.tensor([valid_len, valid_len], device=kernel_device),
        kv_token_id_vs_position_offset=shift,
    )
    expected = [6, -1, -1, -1] if shift == 0 and valid_len > 0 else [-1] * 4
    assert run_operands("triton", batch, 20, 2).verify_expected_tokens == expected


@pytest.mark.parametrize("window", [0, 3])
@pytest.mark.parametrize("shift", [-2, 0, 1])
def test_many_short_runs_of_garbage_read_nothing_outside_the_tables(
    shift: int, window: int, kernel_device: torch.device
) -> None:
    rows = [*EXTREMES, 1, 2] * 6
    prefix = [request * 5 % 7 for request in range(len(rows))]
    valid_lens = [EXTREMES[request // 8] for request in range(len(rows))]
    tokens = [[0, 0], [31, 32], [41, 42], [51, 52]]
    batch = operands(kernel_device, rows, prefix, [1] * len(rows))._replace(
        req_to_verify_expected_tokens=torch.tensor(tokens, dtype=torch.int32, device=kernel_device),
        req_to_verify_expected_tokens_valid_lens=torch.tensor(valid_lens, device=kernel_device),
        kv_token_id_vs_position_offset=shift,
        swa_window_size=window,
        verify_capacity=200,
    )
    filled = run_operands("triton", batch, 200, len(rows))
    entries = [
        (request, row, position)
        for request, row in enumerate(rows)
        for position in range(max(0, prefix[request] - window) if window else 0, prefix[request])
    ]
    assert filled.verify_expected_positions == [position for _, _, position in entries]
    slots = [cell(TABLE.tolist(), row, position) for _, row, position in entries]
    assert filled.verify_slot_indices == slots
    prev_slots = [cell(TABLE.tolist(), row, position - 1) for _, row, position in entries]
    assert filled.verify_prev_slot_indices == prev_slots
    assert filled.verify_expected_tokens == [
        cell(tokens, row, position + shift) if position + shift < valid_lens[request] else -1
        for request, row, position in entries
    ]


def cell(table: list[list[int]], row: int, column: int) -> int:
    """A cell of a table, -1 outside."""
    return table[row][column] if 0 <= row < len(table) and 0 <= column < len(table[0]) else -1


@pytest.mark.parametrize("bad", EXTREMES)
def test_a_scatter_leaves_out_what_lies_outside_the_table(bad: int, kernel_device: torch.device) -> None:
    pool = torch.zeros((3, 2), dtype=torch.int32, device=kernel_device)
    scatter = ScatterOperands(
        flat_in=torch.tensor([7, 8, 9], device=kernel_device),
        offsets=torch.tensor([0, 1, 3], device=kernel_device),
        req_pool_indices=torch.tensor([bad, 2], device=kernel_device),
        start_positions=torch.tensor([0, 1], device=kernel_device),
        pool_out=pool,
    )
    backend_named("triton").launch_scatter(scatter)
    assert pool.tolist() == [[0, 0], [0, 0], [0, 8]]
    scatter.req_pool_indices.copy_(torch.tensor([0, 1]))
    scatter.start_positions.copy_(torch.tensor([bad, 0]))  # type: ignore[union-attr]
    backend_named("triton").launch_scatter(scatter)
    assert pool.tolist() == [[0, 0], [8, 9], [0, 8]]


@pytest.mark.parametrize("offsets", [[5, 1, 3], [-4, 2, 99], [3, 3, 3], [2**62, -1, 2**62]])
def test_scatter_offsets_that_make_no_sense_stay_within_the_table(
    offsets: list[int], kernel_device: torch.device
) -> None:
    whole = torch.zeros((5, 2), dtype=torch.int32, device=kernel_device)
    scatter = ScatterOperands(
        flat_in=torch.tensor([7, 8, 9], device=kernel_device),
        offsets=torch.tensor(offsets, device=kernel_device),
        req_pool_indices=torch.tensor([0, 1], device=kernel_device),
        start_positions=None,
        pool_out=whole[1:4],
    )
    backend_named("triton").launch_scatter(scatter)
    assert whole[0].tolist() == whole[4].tolist() == [0, 0]
