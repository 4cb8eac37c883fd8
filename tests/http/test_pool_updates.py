"""Scatters into pools: where each cell goes, that a refused one writes nothing, and what it is told."""

from typing import Any

import pytest

from tests.pools import BATCH, LUT, SLOTS, TABLES, TOKENS, contents, loc_of, put, rows_update
from tests.problems import require_good_plan, require_problem, require_refused
from tests.running import InProcess

TABLE, LUT_NAME, TOKEN_TABLE = TABLES
SCATTER = "scatter_req_token_ids"


def flat(rows: list[list[int]]) -> list[int]:
    """The cells of all rows but the padding row."""
    return [value for row in rows[1:] for value in row]


def scatter(service: InProcess, name: str, body: dict[str, Any]) -> int:
    """The version that a good scatter makes."""
    response = service.post(f"/pools/{name}/scatter", json=body)
    assert response.status_code == 200, response.text
    version: int = response.json()["version"]
    assert response.headers["etag"] == f'"{version}"'
    assert response.json() == service.get(f"/pools/{name}").json()
    return version


@pytest.mark.parametrize(
    ("rows", "starts", "rows_after"),
    [
        ({1: [5, 6], 3: [7]}, None, ([5, 6, 11, 2, 9], [7, 5, 10, 6, 12])),
        ({3: [7], 1: [5, 6]}, [4, 2], ([7, 3, 5, 6, 9], [13, 5, 10, 6, 7])),
        ({1: [1, 2, 3, 4, 5, 6, 7]}, None, ([1, 2, 3, 4, 5], SLOTS[3])),
        ({1: [1, 2, 3], 3: [4, 5, 6]}, [4, 3], ([7, 3, 11, 2, 1], [13, 5, 10, 4, 5])),
        ({1: [1, 2], 3: [4]}, [5, 0], (SLOTS[1], [4, 5, 10, 6, 12])),
        ({1: [], 3: [4]}, [2, 1], (SLOTS[1], [13, 4, 10, 6, 12])),
        ({1: [], 3: []}, None, (SLOTS[1], SLOTS[3])),
        ({}, None, (SLOTS[1], SLOTS[3])),
        ({}, [], (SLOTS[1], SLOTS[3])),
        ({1: [-(2**31), 2**31 - 1]}, None, ([-(2**31), 2**31 - 1, 11, 2, 9], SLOTS[3])),
    ],
)
@pytest.mark.parametrize("name", [TABLE, TOKEN_TABLE])
def test_segments_go_to_their_rows_and_nowhere_else(
    service: InProcess,
    name: str,
    rows: dict[int, list[int]],
    starts: list[int] | None,
    rows_after: tuple[list[int], list[int]],
) -> None:
    tables = {TABLE: SLOTS, TOKEN_TABLE: TOKENS, LUT_NAME: LUT} | {name: SLOTS}
    put(service, "segments", tables)
    before = contents(service, "segments") if name == TOKEN_TABLE else None
    version = scatter(service, "segments", {name: rows_update(rows, starts)})
    answer = service.post("/plan", json=BATCH | {"pool": "segments", "use_full_to_swa_index_mapping": False}).json()
    seen = answer["verify_slot_indices" if name == TABLE else "verify_expected_tokens"]
    assert seen == rows_after[0] + SLOTS[2] + rows_after[1]
    assert answer["pool_version"] == version
    if before is not None:
        assert answer["verify_slot_indices"] == before.slots


def test_all_tables_of_one_scatter_change_together(service: InProcess) -> None:
    first = put(service, "three")
    body = {
        TABLE: rows_update({1: [14, 13]}, [3]),
        LUT_NAME: {"indices": [14, 0, 3], "values": [-(2**63), 2**63 - 1, 7]},
        TOKEN_TABLE: rows_update({2: [-1, 0]}),
    }
    version = scatter(service, "three", body)
    seen = contents(service, "three")
    lut = LUT.copy()
    lut[14], lut[0], lut[3] = -(2**63), 2**63 - 1, 7
    slots = [7, 3, 11, 14, 13, *flat(SLOTS)[5:]]
    assert version == seen.version > first
    assert seen.slots == slots
    assert seen.translated == [slot if slot < 0 else lut[slot] for slot in slots]
    assert seen.tokens == [71, 72, 73, 74, 75, -1, 0, *flat(TOKENS)[7:]]


def test_the_look_up_table_alone_can_change(service: InProcess) -> None:
    put(service, "lut")
    scatter(service, "lut", {LUT_NAME: {"indices": [7], "values": [5]}, TABLE: None})
    assert contents(service, "lut").translated[0] == 5
    scatter(service, "lut", {LUT_NAME: {"indices": [], "values": []}})
    assert contents(service, "lut").translated[0] == 5


GOOD: dict[str, Any] = {
    TABLE: rows_update({1: [14, 13], 2: [0]}),
    LUT_NAME: {"indices": [1, 2], "values": [5, 6]},
    TOKEN_TABLE: rows_update({1: [1], 3: [2]}, [0, 4]),
}
"""A scatter that changes all three tables, and that one fault spoils."""
SEGMENT_FAULTS: list[tuple[dict[str, Any], str]] = [
    ({"flat_in": [1, 2**31, 3]}, f"kv-canary: flat_in[1] value {2**31} does not fit torch.int32"),
    ({"flat_in": [-(2**31) - 1, 2, 3]}, f"kv-canary: flat_in[0] value {-(2**31) - 1} does not fit torch.int32"),
    ({"flat_in": [[1, 2, 3]]}, f"kv-canary: {SCATTER} flat_in must be 1-D, got shape (1, 3)"),
    ({"flat_in": 7}, f"kv-canary: {SCATTER} flat_in must be 1-D, got shape ()"),
    ({"offsets": [[0, 1, 3]]}, f"kv-canary: {SCATTER} offsets must be 1-D, got shape (1, 3)"),
    ({"req_pool_indices": [[1, 3]]}, f"kv-canary: {SCATTER} req_pool_indices must be 1-D, got shape (1, 2)"),
    ({"start_positions": [[0, 0]]}, f"kv-canary: {SCATTER} start_positions must be 1-D, got shape (1, 2)"),
    ({"offsets": [0, 3]}, f"kv-canary: {SCATTER} offsets length 2 != bs+1 (3)"),
    ({"offsets": []}, f"kv-canary: {SCATTER} offsets length 0 != bs+1 (3)"),
    ({"start_positions": [0]}, f"kv-canary: {SCATTER} start_positions length 1 != bs (2)"),
    *(
        (
            {"flat_in": [1, 2, 3], "offsets": offsets},
            f"kv-canary: {SCATTER} offsets must start at 0, be non-decreasing and end at len(flat_in)=3",
        )
        for offsets in ([1, 1, 3], [0, 4, 3], [0, 1, 2], [0, 1, 4], [0, -1, 3], [-(2**63), 2**63 - 1, 3])
    ),
    *(
        (
            {"req_pool_indices": [1, row]},
            f"kv-canary: {SCATTER} req_pool_indices[1]={row} is outside {{table}} rows [0, 4)",
        )
        for row in (4, -1, 2**63 - 1, -(2**63))
    ),
    ({"req_pool_indices": [3, 3]}, f"kv-canary: {SCATTER} duplicate row 3"),
    *(
        (
            {"start_positions": [0, start]},
            f"kv-canary: {SCATTER} start_positions[1]={start} is outside {{table}} columns [0, 5]",
        )
        for start in (6, -1, 2**63 - 1, -(2**63))
    ),
    ({"flat_in": None}, "kv-canary: flat_in must be an integer, got null"),
    ({"starts": [0, 0]}, 'unknown field "starts"'),
    ({"offset": [0, 0]}, 'unknown field "offset"; did you mean "offsets"?'),
]
CELL_FAULTS: list[tuple[dict[str, Any], str]] = [
    ({"indices": [15, 2]}, "kv-canary: indices[0]=15 is outside full_to_swa_index_mapping [0, 15)"),
    ({"indices": [1, -1]}, "kv-canary: indices[1]=-1 is outside full_to_swa_index_mapping [0, 15)"),
    ({"indices": [1, 2**63 - 1]}, f"kv-canary: indices[1]={2**63 - 1} is outside full_to_swa_index_mapping [0, 15)"),
    ({"indices": [3, 3]}, "kv-canary: indices has 3 more than once"),
    ({"indices": [3, 5, 3, 5], "values": [0] * 4}, "kv-canary: indices has 3 more than once"),
    ({"values": [5]}, "kv-canary: values length must be 2, got 1"),
    ({"values": [[5, 6]]}, "kv-canary: values must be 1-D, got shape (1, 2)"),
    ({"indices": [[1, 2]]}, "kv-canary: indices must be 1-D, got shape (1, 2)"),
    ({"indices": 1}, "kv-canary: indices must be 1-D, got shape ()"),
    ({"values": [5, 2**63]}, f"kv-canary: values[1] value {2**63} does not fit torch.int64"),
    ({"index": [1]}, 'unknown field "index"; did you mean "indices"?'),
]
FAULTS = [(name, change, detail) for name in (TABLE, TOKEN_TABLE) for change, detail in SEGMENT_FAULTS]
FAULTS += [(LUT_NAME, change, detail) for change, detail in CELL_FAULTS]


@pytest.mark.parametrize(("name", "change", "detail"), FAULTS)
def test_one_fault_in_one_table_and_no_table_changes(
    service: InProcess, name: str, change: dict[str, Any], detail: str
) -> None:
    put(service, "spoilt")
    before = contents(service, "spoilt")
    response = service.post("/pools/spoilt/scatter", json=GOOD | {name: GOOD[name] | change})
    assert require_problem(response) == detail.format(table=name)
    assert (response.status_code, loc_of(response)) == (422, [name])
    assert contents(service, "spoilt") == before
    response = service.post("/pools/spoilt/step", json={"scatter": GOOD | {name: GOOD[name] | change}, "plan": BATCH})
    assert require_problem(response) == detail.format(table=name)
    assert loc_of(response) == ["scatter", name]
    assert contents(service, "spoilt") == before
    require_good_plan(service)


def test_of_two_faults_the_one_that_comes_first_in_input_order_is_told(service: InProcess) -> None:
    put(service, "two")
    faulty = {
        TOKEN_TABLE: rows_update({9: [1]}),
        LUT_NAME: {"indices": [99], "values": [0]},
        TABLE: rows_update({8: [1]}),
    }
    for name, words in (
        (TABLE, "req_pool_indices[0]=8"),
        (LUT_NAME, "indices[0]=99"),
        (TOKEN_TABLE, "req_pool_indices[0]=9"),
    ):
        response = service.post("/pools/two/scatter", json=faulty)
        assert words in require_problem(response)
        assert loc_of(response) == [name]
        del faulty[name]


@pytest.mark.parametrize("body", [{}, {TABLE: None}, {TABLE: None, LUT_NAME: None, TOKEN_TABLE: None}])
def test_a_scatter_of_nothing_is_refused(service: InProcess, body: dict[str, Any]) -> None:
    put(service, "nothing")
    require_refused(service, service.post("/pools/nothing/scatter", json=body), "nothing-to-scatter")


@pytest.mark.parametrize("name", [LUT_NAME, TOKEN_TABLE])
def test_a_table_that_the_pool_lacks_cannot_change(service: InProcess, name: str) -> None:
    put(service, "bare", {TABLE: SLOTS})
    response = service.post("/pools/bare/scatter", json={TABLE: GOOD[TABLE], name: GOOD[name]})
    assert require_refused(service, response, "pool-lacks-table") == f"the pool has no {name}"
    assert loc_of(response) == [name]
    body = BATCH | {"pool": "bare"}
    assert service.post("/plan", json=body).json()["verify_slot_indices"] == flat(SLOTS)


@pytest.mark.parametrize("value", [[], 7, "x", True, [1]])
@pytest.mark.parametrize("name", list(GOOD))
def test_what_is_no_object_is_refused(service: InProcess, name: str, value: object) -> None:
    put(service, "objects")
    response = service.post("/pools/objects/scatter", json={name: value})
    require_refused(service, response, "not-an-object")


def test_names_in_the_wrong_place_get_a_hint(service: InProcess) -> None:
    put(service, "hints")
    response = service.post("/pools/hints/scatter", json={"req_to_tokens": GOOD[TABLE]})
    assert require_refused(service, response) == 'unknown field "req_to_tokens"; did you mean "req_to_token"?'
    response = service.post("/pools/hints/scatter", json=GOOD[TABLE])
    require_refused(service, response, "unknown-field")
    response = service.post("/pools/hints/scatter", json={TABLE: {"flat_in": [1], "offsets": [0, 1]}})
    assert require_refused(service, response) == "kv-canary: req_pool_indices is required"
    assert loc_of(response) == [TABLE]


def test_a_table_without_columns_takes_segments_and_keeps_nothing(service: InProcess) -> None:
    put(service, "narrow", {TABLE: [[], []]})
    scatter(service, "narrow", {TABLE: rows_update({1: [7, 8], 0: []})})
    response = service.post("/pools/narrow/scatter", json={TABLE: rows_update({1: [7]}, [1])})
    assert "is outside req_to_token columns [0, 0]" in require_refused(service, response)


def test_many_segments_change_a_large_pool_as_a_few_do_a_small_one(service: InProcess) -> None:
    rows = 3000
    put(service, "many", {TABLE: [], "rows": rows, "columns": 4})
    scatter(service, "many", {TABLE: rows_update({row: [row, -row] for row in range(1, rows)}, [1] * (rows - 1))})
    batch = {
        "req_pool_indices": list(range(1, rows)),
        "prefix_lens": [4] * (rows - 1),
        "extend_seq_lens": [0] * (rows - 1),
        "pool": "many",
    }
    seen = service.post("/plan", json=batch).json()["verify_slot_indices"]
    assert seen == [cell for row in range(1, rows) for cell in (0, row, -row, 0)]
    service.request("DELETE", "/pools/many")
