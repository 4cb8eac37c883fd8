"""The plain implementation is correct: a ratio to a wrong one would mean nothing."""

import asyncio

import httpx
import pytest
import torch

from tests.cases import Case, load_cases
from tests.load.plain_fastapi import create_app


@pytest.fixture(autouse=True)
def restored_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave torch's threads as they are."""
    monkeypatch.setattr(torch, "set_num_threads", lambda _: None)


async def answers(cases: list[Case]) -> list[httpx.Response]:
    """What it answers to each request."""
    transport = httpx.ASGITransport(app=create_app())
    async with httpx.AsyncClient(transport=transport, base_url="http://plain") as client:
        return [await client.post("/plan", json=case.request) for case in cases]


def test_it_answers_every_recorded_case_as_the_original_planner(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KV_PLAN_DEVICE", "cpu")
    cases = load_cases("plan")
    wrong = []
    for case, response in zip(cases, asyncio.run(answers(cases)), strict=True):
        answer = response.json()
        if response.status_code != 200 or any(answer[name] != value for name, value in case.response.items()):
            wrong.append(case.id)
    assert wrong == []


def test_a_slot_outside_the_look_up_table_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KV_PLAN_DEVICE", raising=False)
    request = {
        "req_pool_indices": [1],
        "prefix_lens": [2],
        "extend_seq_lens": [1],
        "req_to_token": [[0, 0], [5, 6]],
        "full_to_swa_index_mapping": [0],
    }
    (response,) = asyncio.run(answers([Case("", request, {}, 422, "")]))
    assert response.status_code == 422
