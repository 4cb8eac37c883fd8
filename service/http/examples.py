"""Worked examples: batches with the plan they have. Shown in the schema, run by the self-test, proved by the tests."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class WorkedExample:
    """A batch and the fields that its plan must have, device and backend aside."""

    name: str
    summary: str
    request: dict[str, Any]
    response: dict[str, Any]


DECODE = WorkedExample(
    name="decode",
    summary="Two requests, 3 and 2 tokens cached, write one token each",
    request={
        "req_pool_indices": [1, 2],
        "prefix_lens": [3, 2],
        "extend_seq_lens": [1, 1],
        "req_to_token": [[0, 0, 0, 0], [11, 12, 13, 14], [21, 22, 23, 24]],
    },
    response={
        "verify_offsets": [0, 3, 5],
        "verify_total": 5,
        "verify_num_valid": 5,
        "verify_enable": True,
        "verify_slot_indices": [11, 12, 13, 21, 22],
        "verify_expected_tokens": [-1, -1, -1, -1, -1],
        "verify_expected_positions": [0, 1, 2, 0, 1],
        "verify_prev_slot_indices": [-1, 11, 12, -1, 21],
        "write_offsets": [0, 1, 2],
        "write_seed_slot_indices": [13, 22],
        "write_num_valid_reqs": 2,
    },
)
WINDOW = WorkedExample(
    name="window",
    summary="A sliding window of 2 with its look-up table, a token table and a padding row",
    request={
        "req_pool_indices": [1, 0, 2],
        "prefix_lens": [3, 9, 1],
        "extend_seq_lens": [2, 9, 1],
        "req_to_token": [[0, 0, 0, 0], [3, 5, 7, 0], [2, 4, 6, 0]],
        "swa_window_size": 2,
        "full_to_swa_index_mapping": [0, 10, 20, 30, 40, 50, 60, 70],
        "req_to_verify_expected_tokens": [[0, 0, 0, 0], [101, 102, 103, 0], [201, 0, 0, 0]],
        "req_to_verify_expected_tokens_valid_lens": [2, 0, 1],
    },
    response={
        "verify_offsets": [0, 2, 2, 3],
        "verify_total": 3,
        "verify_num_valid": 3,
        "verify_enable": True,
        "verify_slot_indices": [50, 70, 20],
        "verify_expected_tokens": [102, -1, 201],
        "verify_expected_positions": [1, 2, 0],
        "verify_prev_slot_indices": [30, 50, -1],
        "write_offsets": [0, 2, 2, 3],
        "write_seed_slot_indices": [70, -1, 20],
        "write_num_valid_reqs": 3,
    },
)
OVERFLOW = WorkedExample(
    name="overflow",
    summary="More entries than room: the plan is disabled, its write half is complete",
    request={
        "req_pool_indices": [1],
        "prefix_lens": [3],
        "extend_seq_lens": [1],
        "req_to_token": [[0, 0, 0, 0], [11, 12, 13, 14]],
        "verify_capacity": 2,
        "write_req_capacity": 2,
    },
    response={
        "verify_offsets": [0, 3],
        "verify_total": 3,
        "verify_num_valid": 2,
        "verify_enable": False,
        "verify_slot_indices": [],
        "verify_expected_tokens": [],
        "verify_expected_positions": [],
        "verify_prev_slot_indices": [],
        "write_offsets": [0, 1, 0],
        "write_seed_slot_indices": [13],
        "write_num_valid_reqs": 1,
    },
)
WORKED_EXAMPLES: tuple[WorkedExample, ...] = (DECODE, WINDOW, OVERFLOW)
