"""Bodies that nobody sane would send to the operations on pools: answered or refused, and never half done."""

import copy
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.pools import BATCH, SLOTS, TABLES, TOKENS, contents, put, rows_update, version_of
from tests.problems import require_good_plan, require_problem
from tests.running import InProcess, host_app, in_process

TABLE, LUT_NAME, TOKEN_TABLE = TABLES
UPDATE: dict[str, Any] = {
    TABLE: rows_update({1: [14, 13], 2: [0]}),
    LUT_NAME: {"indices": [14, 13], "values": [-5, 6]},
    TOKEN_TABLE: rows_update({1: [1], 3: [2]}, [0, 4]),
}
GROUPS: dict[str, Any] = {"full": {"use_full_to_swa_index_mapping": False}, "swa": {"swa_window_size": 2}}
OPERATIONS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "plan": ("POST", "/plan", BATCH | {"pool": "fuzz", "pool_version": None, "verify_capacity": 20}),
    "groups": ("POST", "/plan/groups", BATCH | {"pool": "fuzz", "groups": GROUPS}),
    "inline": ("POST", "/plan/groups", BATCH | {TABLE: SLOTS, TOKEN_TABLE: TOKENS, "groups": {"full": {}}}),
    "put": ("PUT", "/pools/fuzz", TABLES | {"rows": 5, "columns": 6}),
    "scatter": ("POST", "/pools/fuzz/scatter", UPDATE | {"pool_version": None}),
    "step": ("POST", "/pools/fuzz/step", {"scatter": UPDATE, "plan": BATCH | {"swa_window_size": 3}}),
}
EDGES = [-(2**63), -(2**63) - 1, 2**63 - 1, 2**63, 2**64, -(2**31) - 1, 2**31, 10**400, -1, 0, 1, 4, 5, 6]
INTEGERS = st.one_of(st.sampled_from(EDGES), st.integers(-3, 16))
EXAMPLES = 20
LEAVES = st.one_of(INTEGERS, st.none(), st.booleans(), st.floats(), st.text(max_size=70))
JUNK = st.one_of(
    LEAVES,
    st.lists(INTEGERS, max_size=6),
    st.lists(LEAVES, max_size=4),
    st.lists(st.lists(INTEGERS, max_size=3), max_size=4),
    st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner)),
)


def _places(value: object, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every member and element."""
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in members:
        yield (*path, key)
        yield from _places(inner, (*path, key))


@st.composite
def spoilt(draw: st.DrawFn, body: dict[str, Any]) -> bytes:
    """The body with a few members replaced, left out, renamed or added, or with its text cut or changed."""
    changed = copy.deepcopy(body)
    for _ in range(draw(st.integers(0, 3))):
        *above, last = draw(st.sampled_from(list(_places(changed)) or [("nothing",)]))
        inside: Any = changed
        for key in above:
            inside = inside[key]
        kind = draw(st.sampled_from(["replace", "replace", "drop", "rename"]))
        if kind == "replace" or isinstance(inside, list):
            inside[last] = draw(JUNK)
        elif kind == "drop":
            inside.pop(last, None)
        else:
            inside[draw(st.text(max_size=6)) + str(last)] = inside.pop(last, None)
    text = json.dumps(changed, ensure_ascii=draw(st.booleans())).encode(errors="surrogatepass")
    if draw(st.integers(0, 5)) == 0:
        at = draw(st.integers(0, len(text)))
        middle = draw(st.sampled_from([b"", b"\\", b'"', b"[", b"{}", b"\xff", b"1", b",", b"null"]))
        text = text[:at] + middle + text[at + draw(st.integers(0, 2)) :]
    return text


@pytest.fixture(scope="module")
def bounded() -> Iterator[InProcess]:
    """A service with room for small tables only, so that no body can make it work for long."""
    with in_process(host_app(max_table_cells=5000, max_resident_bytes=10**5, max_requests=1000)) as running:
        put(running, "bystander")
        yield running


@pytest.mark.parametrize("operation", list(OPERATIONS))
def test_a_spoilt_body_is_answered_or_refused_and_a_refused_one_changes_nothing(
    bounded: InProcess, operation: str
) -> None:
    method, path, body = OPERATIONS[operation]
    bystander = contents(bounded, "bystander")
    put(bounded, "fuzz")
    before = contents(bounded, "fuzz")

    @given(spoilt(body))
    @settings(max_examples=EXAMPLES, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    def send(content: bytes) -> None:
        nonlocal before
        response = bounded.request(method, path, content=content)
        if response.status_code >= 400:
            require_problem(response)
            assert response.status_code < 500, (content, response.text)
        elif path.startswith("/pools"):
            assert version_of(bounded, "fuzz") >= before.version  # a step need not change anything
            put(bounded, "fuzz")
            before = replace(before, version=version_of(bounded, "fuzz"))
        assert contents(bounded, "fuzz") == before

    send()
    require_good_plan(bounded)
    assert contents(bounded, "bystander") == bystander


@pytest.mark.parametrize("operation", list(OPERATIONS))
def test_a_body_as_it_should_be_is_answered(bounded: InProcess, operation: str) -> None:
    method, path, body = OPERATIONS[operation]
    put(bounded, "fuzz")
    assert bounded.request(method, path, json=body).status_code in (200, 201)


@pytest.mark.parametrize("content", [b"[" * 5000, b'{"groups":' * 2000, b'{"groups":{"a":' * 2000, b'{"plan":' * 2000])
@pytest.mark.parametrize("path", ["/plan/groups", "/pools/fuzz/step", "/pools/fuzz/scatter", "/plan"])
def test_deep_bodies_are_refused(bounded: InProcess, path: str, content: bytes) -> None:
    put(bounded, "fuzz")
    response = bounded.post(path, content=content)
    require_problem(response)
    assert response.status_code in (400, 422)
