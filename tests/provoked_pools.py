"""What meets each error of pools."""

from collections.abc import Callable
from typing import Any

from tests.problems import require_problem
from tests.running import GOOD_REQUEST, host_app, in_process


def _provoke_at_pool(
    code: str, call: tuple[str, str], body: object = None, headers: dict[str, str] | None = None, **settings: Any
) -> None:
    """Meet an error at a pool called a, of a table and a look-up table of two slots, or at another one."""
    with in_process(host_app(**settings)) as service:
        tables = {"req_to_token": GOOD_REQUEST["req_to_token"], "full_to_swa_index_mapping": [0, 1]}
        service.request("PUT", "/pools/a", json=tables)
        method, path = call
        require_problem(service.request(method, path, json=body, headers=headers), code)


_BATCH = {name: value for name, value in GOOD_REQUEST.items() if name != "req_to_token"}
_SCATTER_A = ("POST", "/pools/a/scatter")
_SEGMENT = {"flat_in": [7], "offsets": [0, 1], "req_pool_indices": [1]}


def _cells(*indices: int) -> dict[str, Any]:
    return {"full_to_swa_index_mapping": {"indices": indices, "values": [0] * len(indices)}}


POOL_SITUATIONS: dict[str, Callable[[], None]] = {
    "below-minimum": lambda: _provoke_at_pool(
        "below-minimum", ("PUT", "/pools/b"), {"req_to_token": [], "columns": -1}
    ),
    "pool-not-found": lambda: _provoke_at_pool("pool-not-found", ("GET", "/pools/b")),
    "pool-name-invalid": lambda: _provoke_at_pool("pool-name-invalid", ("GET", "/pools/-b")),
    "pool-version-conflict": lambda: _provoke_at_pool(
        "pool-version-conflict", ("POST", "/plan"), _BATCH | {"pool": "a", "pool_version": 1}
    ),
    "pool-precondition-failed": lambda: _provoke_at_pool(
        "pool-precondition-failed", ("DELETE", "/pools/a"), headers={"if-match": '"1"'}
    ),
    "resident-budget-exceeded": lambda: _provoke_at_pool(
        "resident-budget-exceeded", ("PUT", "/pools/b"), {"req_to_token": [[0], [1]]}, max_resident_bytes=7
    ),
    "pools-need-one-worker": lambda: _provoke_at_pool("pools-need-one-worker", ("GET", "/pools"), workers=2),
    "pool-with-inline-tables": lambda: _provoke_at_pool(
        "pool-with-inline-tables", ("POST", "/plan"), GOOD_REQUEST | {"pool": "a"}
    ),
    "requires-pool": lambda: _provoke_at_pool("requires-pool", ("POST", "/plan"), GOOD_REQUEST | {"pool_version": 1}),
    "pool-lacks-table": lambda: _provoke_at_pool(
        "pool-lacks-table", _SCATTER_A, {"req_to_verify_expected_tokens": _SEGMENT}
    ),
    "nothing-to-scatter": lambda: _provoke_at_pool("nothing-to-scatter", _SCATTER_A, {}),
    "cell-outside-lut": lambda: _provoke_at_pool("cell-outside-lut", _SCATTER_A, _cells(2)),
    "duplicate-cell": lambda: _provoke_at_pool("duplicate-cell", _SCATTER_A, _cells(1, 1)),
}
"""Errors of pools, and what meets them."""
