"""Large bodies that are read on the device, and large answers that are printed there, are those of the host backend."""

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import orjson
import pytest
import torch

from service.app import create_app
from service.kernels.compile_events import compiled_kernels
from service.settings import Settings
from service.wire.small_body import SMALL_BODY_BYTES
from tests.running import InProcess, in_process

pytestmark = pytest.mark.gpu

BS, COLUMNS, WINDOW = 40, 1500, 700


@pytest.fixture(scope="module")
def kernels_service(kernel_device: torch.device) -> Iterator[InProcess]:
    with in_process(
        create_app(Settings(device=str(kernel_device), kernels="triton", deadline_seconds=3600))
    ) as running:
        yield running


@pytest.fixture(scope="module")
def batch() -> dict[str, Any]:
    """A batch whose vectors are short, its tables long, and its plan of 40,000 entries longer."""
    generator = np.random.default_rng(4)
    cells = (BS + 1) * COLUMNS
    return {
        "req_pool_indices": np.arange(1, BS + 1),
        "prefix_lens": np.full(BS, 1000),
        "extend_seq_lens": np.arange(BS),
        "req_to_token": generator.permutation(cells).reshape(BS + 1, COLUMNS),
        "full_to_swa_index_mapping": generator.integers(-(2**63), 2**63 - 1, cells),
        "req_to_verify_expected_tokens": generator.integers(-(2**31), 2**31 - 1, (BS + 1, COLUMNS)),
        "req_to_verify_expected_tokens_valid_lens": np.full(BS, 900),
    }


def text_of(fields: dict[str, Any]) -> bytes:
    return orjson.dumps(fields, option=orjson.OPT_SERIALIZE_NUMPY)


def without_signature(answer: bytes) -> bytes:
    """An answer less what tells who gave it, and the version of a pool."""
    text, signed = re.subn(rb'"device":"[^"]*","backend":"[a-z]*"(,"pool_version":[0-9]+)?', b"", answer)
    assert signed == 1
    return text


def same_answer(services: list[InProcess], method: str, path: str, body: bytes) -> int:
    """The length of the answer that both services give to the same body."""
    answers = [
        service.request(method, path, content=body, headers={"content-type": "application/json"})
        for service in services
    ]
    assert [answer.status_code for answer in answers] == [200, 200], answers[1].text[:300]
    host, kernels = (without_signature(answer.content) for answer in answers)
    assert host == kernels
    return len(host)


@pytest.mark.parametrize("path", ["/plan", "/plan/offsets"])
def test_a_large_table_has_one_answer(
    path: str, service: InProcess, kernels_service: InProcess, batch: dict[str, Any]
) -> None:
    body = text_of(batch | {"swa_window_size": WINDOW})
    assert len(body) > SMALL_BODY_BYTES
    same_answer([service, kernels_service], "POST", path, body)


def test_groups_have_one_answer(service: InProcess, kernels_service: InProcess, batch: dict[str, Any]) -> None:
    lut = batch["full_to_swa_index_mapping"]
    shared = {name: value for name, value in batch.items() if "verify" not in name and value is not lut}
    groups = {
        "full": {},
        "swa": {"swa_window_size": WINDOW, "full_to_swa_index_mapping": lut},
        "none": {"verify_capacity": 1},
    }
    length = same_answer([service, kernels_service], "POST", "/plan/groups", text_of(shared | {"groups": groups}))
    assert length > SMALL_BODY_BYTES


def test_pools_have_one_answer(service: InProcess, kernels_service: InProcess, batch: dict[str, Any]) -> None:
    services = [service, kernels_service]
    tables = ("req_to_token", "full_to_swa_index_mapping", "req_to_verify_expected_tokens")
    body = text_of({name: batch[name] for name in tables} | {"rows": BS + 5})
    answers = [
        one.request("PUT", "/pools/large", content=body, headers={"content-type": "application/json"})
        for one in services
    ]
    assert answers[0].json()["tables"] == answers[1].json()["tables"]
    vectors = {name: value for name, value in batch.items() if name not in tables} | {"swa_window_size": WINDOW}
    same_answer(services, "POST", "/plan", text_of(vectors | {"pool": "large"}))
    rows = {"flat_in": np.arange(COLUMNS), "offsets": np.array([0, COLUMNS]), "req_pool_indices": np.array([3])}
    same_answer(services, "POST", "/pools/large/step", text_of({"scatter": {"req_to_token": rows}, "plan": vectors}))


@pytest.mark.parametrize(
    "damage",
    [(b"]]", b"],[1]]"), (b"[[", b"[["), (b",", b",,"), (b",", b",01,"), (b",", b",1.5,"), (b",", b",2147483648,")],
    ids=str,
)
def test_a_fault_in_a_large_table_is_told_alike(
    damage: tuple[bytes, bytes], service: InProcess, kernels_service: InProcess, batch: dict[str, Any]
) -> None:
    table = text_of(batch["req_to_token"])
    at = len(table) * 2 // 3
    old, new = damage
    broken = table[:at] + table[at:].replace(old, new, 1)
    assert len(broken) >= len(table)
    vectors = {name: batch[name] for name in ("req_pool_indices", "prefix_lens", "extend_seq_lens")}
    body = text_of(vectors)[:-1] + b',"req_to_token":' + broken + b"}"
    before = compiled_kernels()
    told = []
    for one in (service, kernels_service):
        answer = one.request("POST", "/plan/offsets", content=body, headers={"content-type": "application/json"})
        told.append((answer.status_code, answer.json().get("detail")))
    assert told[0] == told[1]
    assert compiled_kernels() == before
