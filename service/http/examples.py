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
GROUPS = WorkedExample(
    name="full_and_window",
    summary="One batch for two groups: full attention, and a sliding window of 2 with its look-up table",
    request={
        "req_pool_indices": [1, 2],
        "prefix_lens": [3, 1],
        "extend_seq_lens": [1, 1],
        "req_to_token": [[0, 0, 0, 0], [3, 5, 7, 0], [2, 4, 6, 0]],
        "groups": {
            "full": {},
            "swa": {"swa_window_size": 2, "full_to_swa_index_mapping": [0, 10, 20, 30, 40, 50, 60, 70]},
        },
    },
    response={
        "groups": {
            "full": {
                "verify_offsets": [0, 3, 4],
                "verify_total": 4,
                "verify_num_valid": 4,
                "verify_enable": True,
                "verify_slot_indices": [3, 5, 7, 2],
                "verify_expected_tokens": [-1, -1, -1, -1],
                "verify_expected_positions": [0, 1, 2, 0],
                "verify_prev_slot_indices": [-1, 3, 5, -1],
                "write_offsets": [0, 1, 2],
                "write_seed_slot_indices": [7, 2],
                "write_num_valid_reqs": 2,
            },
            "swa": {
                "verify_offsets": [0, 2, 3],
                "verify_total": 3,
                "verify_num_valid": 3,
                "verify_enable": True,
                "verify_slot_indices": [50, 70, 20],
                "verify_expected_tokens": [-1, -1, -1],
                "verify_expected_positions": [1, 2, 0],
                "verify_prev_slot_indices": [30, 50, -1],
                "write_offsets": [0, 1, 2],
                "write_seed_slot_indices": [70, 20],
                "write_num_valid_reqs": 2,
            },
        }
    },
)
GROUPS_EXAMPLES: tuple[WorkedExample, ...] = (GROUPS,)

_VERSION = 1764547200000000
_DECODE_POOL = {
    "pool": "example",
    "version": _VERSION,
    "bytes": 48,
    "tables": [{"name": "req_to_token", "shape": [3, 4], "dtype": "int32", "bytes": 48}],
}
POOL = WorkedExample(
    name="table",
    summary="A table of three rows",
    request={"req_to_token": DECODE.request["req_to_token"]},
    response=_DECODE_POOL,
)
ROOM = WorkedExample(
    name="room",
    summary="Room for a table that is filled by scatters",
    request={"req_to_token": [], "rows": 3, "columns": 4},
    response=_DECODE_POOL,
)
POOL_EXAMPLES: tuple[WorkedExample, ...] = (ROOM, POOL)
SCATTER = WorkedExample(
    name="append",
    summary="The slot of a new token at the end of row 1, and two slots at the beginning of row 2",
    request={
        "req_to_token": {
            "flat_in": [14, 21, 22],
            "offsets": [0, 1, 3],
            "req_pool_indices": [1, 2],
            "start_positions": [3, 0],
        }
    },
    response=_DECODE_POOL | {"version": _VERSION + 1},
)
SCATTER_EXAMPLES: tuple[WorkedExample, ...] = (SCATTER,)
STEP = WorkedExample(
    name="decode",
    summary="Store the slot of a new token in row 1, then plan two requests",
    request={
        "scatter": {
            "req_to_token": {"flat_in": [13], "offsets": [0, 1], "req_pool_indices": [1], "start_positions": [2]}
        },
        "plan": {name: value for name, value in DECODE.request.items() if name != "req_to_token"},
    },
    response=DECODE.response | {"pool_version": _VERSION + 1},
)
STEP_EXAMPLES: tuple[WorkedExample, ...] = (STEP,)
