"""Valid requests, drawn by Hypothesis."""

from typing import Any

from hypothesis import strategies as st

INT64 = st.integers(-(2**63), 2**63 - 1)
INT32 = st.integers(-(2**31), 2**31 - 1)


@st.composite
def requests(draw: st.DrawFn) -> dict[str, Any]:
    """A request that every backend must accept, with garbage wherever nothing may look."""
    rows, cols = draw(st.integers(1, 5)), draw(st.integers(0, 6))
    has_lut, has_tokens = draw(st.booleans()), draw(st.booleans())
    slots = st.integers(-3, 30) if has_lut else INT32
    batch = [draw(_request_row(rows, cols)) for _ in range(draw(st.integers(0, 6)))]
    request: dict[str, Any] = {
        "req_pool_indices": [row for row, _, _, _ in batch],
        "prefix_lens": [prefix for _, prefix, _, _ in batch],
        "extend_seq_lens": [extend for _, _, extend, _ in batch],
        "req_to_token": [[draw(slots) for _ in range(cols)] for _ in range(rows)],
    }
    if has_lut:
        request["full_to_swa_index_mapping"] = draw(st.lists(INT64, min_size=31, max_size=33))
        request["swa_window_size"] = draw(st.one_of(st.integers(-2, 7), INT64))
    if has_tokens:
        request["req_to_verify_expected_tokens"] = [[draw(INT32) for _ in range(cols)] for _ in range(rows)]
        request["req_to_verify_expected_tokens_valid_lens"] = [valid for _, _, _, valid in batch]
        request["kv_token_id_vs_position_offset"] = draw(st.one_of(st.integers(-3, 3), INT32))
    if draw(st.booleans()):
        request["verify_capacity"] = draw(st.one_of(st.integers(1, 20), st.integers(1, 2**63 - 1)))
    if draw(st.booleans()):
        request["write_req_capacity"] = draw(st.integers(max(len(batch), 1), len(batch) + 4))
    return request


@st.composite
def _request_row(draw: st.DrawFn, rows: int, cols: int) -> tuple[int, int, int, int]:
    """Row, prefix, extend and valid length of one request."""
    row = draw(st.integers(0, rows - 1))
    if row == 0:
        return 0, draw(INT64), draw(INT64), draw(INT64)
    below = st.integers(-(2**63), cols)
    return row, draw(below), draw(st.integers(-(2**63), 2**60)), draw(below)
