"""The Triton kernels behind HTTP answer what the host backend answers, to the byte."""

from collections.abc import Iterator
from typing import Any

import pytest

from service.app import create_app
from service.http.examples import WORKED_EXAMPLES
from service.settings import Settings
from tests.cases import Case, load_cases
from tests.running import InProcess, in_process

pytestmark = pytest.mark.triton

SMALL_CASES = sorted(load_cases("plan"), key=lambda case: len(case.response["verify_slot_indices"]))[::12][:14]


@pytest.fixture(scope="module")
def kernels_service(kernel_device: Any) -> Iterator[InProcess]:
    with in_process(
        create_app(Settings(device=str(kernel_device), kernels="triton", deadline_seconds=3600))
    ) as running:
        yield running


def _same_answer(service: InProcess, kernels_service: InProcess, request: dict[str, Any]) -> None:
    host, kernels = (running.post("/plan", json=request) for running in (service, kernels_service))
    assert host.json()["backend"] == "host"
    assert kernels.json()["backend"] == "triton"
    same = host.content.replace(b'"backend":"host"', b'"backend":"triton"')
    device = b'"device":"%s"' % kernels.json()["device"].encode()
    assert same.replace(b'"device":"cpu"', device) == kernels.content


@pytest.mark.parametrize("example", WORKED_EXAMPLES, ids=lambda example: example.name)
def test_worked_examples_have_one_answer(service: InProcess, kernels_service: InProcess, example: Any) -> None:
    _same_answer(service, kernels_service, example.request)


@pytest.mark.parametrize("case", SMALL_CASES, ids=lambda case: case.id)
def test_recorded_cases_have_one_answer(service: InProcess, kernels_service: InProcess, case: Case) -> None:
    _same_answer(service, kernels_service, case.request)


@pytest.mark.parametrize("case", load_cases("error")[-20::4], ids=lambda case: case.id)
def test_recorded_errors_have_one_answer(service: InProcess, kernels_service: InProcess, case: Case) -> None:
    details = [running.post("/plan", json=case.request).json()["detail"] for running in (service, kernels_service)]
    assert details == [case.detail, case.detail]
