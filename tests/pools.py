"""A pool for tests, and how to see through plans what it holds."""

from dataclasses import dataclass
from typing import Any

import httpx

from tests.running import InProcess

SLOTS = [[0, 0, 0, 0, 0], [7, 3, 11, 2, 9], [4, 14, 1, -1, 8], [13, 5, 10, 6, 12]]
LUT = [(7 * slot + 3) % 16 + 100 for slot in range(15)]
TOKENS = [[0, 0, 0, 0, 0], [71, 72, 73, 74, 75], [81, 82, 83, 84, 85], [91, 92, 93, 94, 95]]
TABLES: dict[str, Any] = {
    "req_to_token": SLOTS,
    "full_to_swa_index_mapping": LUT,
    "req_to_verify_expected_tokens": TOKENS,
}
BATCH: dict[str, Any] = {
    "req_pool_indices": [1, 2, 3],
    "prefix_lens": [5, 5, 5],
    "extend_seq_lens": [1, 1, 1],
    "req_to_verify_expected_tokens_valid_lens": [5, 5, 5],
}
"""Every cell that a plan can look up: row 0 stands for padding."""
NO_LUT = {"use_full_to_swa_index_mapping": False}


@dataclass(frozen=True, slots=True)
class Contents:
    """What a pool of the shape of ``TABLES`` holds, at which version."""

    version: int
    slots: list[int]
    translated: list[int]
    tokens: list[int]


def put(service: InProcess, name: str, tables: dict[str, Any] | None = None) -> int:
    """The version of the pool that now holds ``tables``, by default those above."""
    response = service.request("PUT", f"/pools/{name}", json=TABLES if tables is None else tables)
    assert response.status_code in (200, 201), response.text
    version: int = response.json()["version"]
    assert response.headers["etag"] == f'"{version}"'
    return version


def version_of(service: InProcess, name: str) -> int:
    """The version that a pool is at."""
    version: int = service.get(f"/pools/{name}").json()["version"]
    return version


def contents(service: InProcess, name: str) -> Contents:
    """What the pool holds now, seen at one moment."""
    body = BATCH | {"pool": name, "groups": {"full": NO_LUT, "swa": {}}}
    answer = service.post("/plan/groups", json=body).json()
    full, swa = answer["groups"]["full"], answer["groups"]["swa"]
    slots, translated = full["verify_slot_indices"], swa["verify_slot_indices"]
    return Contents(answer["pool_version"], slots, translated, full["verify_expected_tokens"])


def loc_of(response: httpx.Response) -> list[str]:
    """Inside which objects of the body the fault is."""
    loc: list[str] = response.json().get("loc", [])
    return loc


def rows_update(rows: dict[int, list[int]], starts: list[int] | None = None) -> dict[str, Any]:
    """The segments that store each of ``rows``, from its start or from the column that ``starts`` gives it."""
    offsets = [0]
    for values in rows.values():
        offsets.append(offsets[-1] + len(values))
    segments = {
        "flat_in": [value for values in rows.values() for value in values],
        "offsets": offsets,
        "req_pool_indices": list(rows),
    }
    return segments if starts is None else segments | {"start_positions": starts}
