"""The rules on values, against a judge in plain Python that looks at one request after the other."""

from collections.abc import Iterator
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from service.errors import InvalidInput
from service.plan.planner import judge
from tests.cases import inputs_of

TABLE = "req_to_token"
TOKENS = "req_to_verify_expected_tokens"
FEW = st.integers(-2, 6)
LARGEST = 2**63 - 1


@st.composite
def _batches(draw: st.DrawFn) -> dict[str, Any]:
    """A request of good form whose values may break any rule, several at once."""
    bs, rows, cols = draw(st.integers(0, 4)), draw(st.integers(0, 4)), draw(st.integers(1, 4))

    def vector(values: st.SearchStrategy[int]) -> list[int]:
        return [draw(values) for _ in range(bs)]

    request: dict[str, Any] = {
        "req_pool_indices": vector(FEW | st.sampled_from([-(2**63), LARGEST])),
        "prefix_lens": vector(FEW | st.sampled_from([-(2**63), LARGEST])),
        "extend_seq_lens": vector(FEW | st.sampled_from([-(2**63), 2**62, LARGEST])),
        TABLE: [[1] * cols for _ in range(rows)],
    }
    if draw(st.booleans()):
        request |= {"swa_window_size": draw(FEW), "full_to_swa_index_mapping": [0, 1]}
    if draw(st.booleans()):
        token_rows, token_cols = draw(st.integers(0, 4)), draw(st.integers(1, 4))
        request[TOKENS] = [[1] * token_cols for _ in range(token_rows)]
        request[f"{TOKENS}_valid_lens"] = vector(FEW | st.just(-(2**63)))
        request["kv_token_id_vs_position_offset"] = draw(st.integers(-2, 2))
    return request


def _broken(request: dict[str, Any]) -> Iterator[str]:
    """What is wrong, in the contract's order."""
    tokens, lens = request.get(TOKENS), request.get(f"{TOKENS}_valid_lens", [])
    indices, prefixes = request["req_pool_indices"], request["prefix_lens"]
    active = [r for r, row in enumerate(indices) if row != 0]
    for r in active:
        if not 0 <= indices[r] < len(request[TABLE]):
            yield f"req_pool_indices[{r}]={indices[r]} is outside {TABLE} rows [0, {len(request[TABLE])})"
        elif tokens is not None and indices[r] >= len(tokens) and _looks_up(request, r):
            yield f"req_pool_indices[{r}]={indices[r]} is outside {TOKENS} rows [0, {len(tokens)})"
    columns = len(request[TABLE][0]) if request[TABLE] else 0
    for r in active:
        if prefixes[r] > columns:
            yield f"prefix_lens[{r}]={prefixes[r]} exceeds {TABLE} columns {columns}"
    if sum(max(request["extend_seq_lens"][r], 0) for r in active) > LARGEST:
        yield "extend_seq_lens sum exceeds int64"
    for r in active if tokens is not None else ():
        columns = len(tokens[0]) if tokens else 0
        if lens[r] > columns:
            yield f"{TOKENS}_valid_lens[{r}]={lens[r]} exceeds {TOKENS} columns {columns}"


def _looks_up(request: dict[str, Any], r: int) -> bool:
    end, window = max(request["prefix_lens"][r], 0), request.get("swa_window_size", 0)
    shift, valid_len = request["kv_token_id_vs_position_offset"], request[f"{TOKENS}_valid_lens"][r]
    first = max(end - window, 0) if window > 0 else 0
    return bool(max(first + shift, 0) < min(end + shift, valid_len))


@given(_batches())
@settings(deadline=None, max_examples=500)
def test_the_first_broken_rule_is_named_and_no_other_batch_is_refused(request: dict[str, Any]) -> None:
    try:
        judge(inputs_of(request))
        said = ""
    except InvalidInput as error:
        said = str(error).removeprefix("kv-canary: ")
    assert said == next(_broken(request), "")
