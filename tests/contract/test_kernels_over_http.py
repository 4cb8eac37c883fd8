"""The Triton kernels behind HTTP answer what the host backend answers, to the byte."""

from collections.abc import Iterator
from typing import Any

import pytest

from service.app import create_app, plan_limits
from service.http.examples import WORKED_EXAMPLES
from service.kernels.backend import Target, backend_named
from service.plan.transfer import Workspace
from service.runtime.computer import PlanComputer
from service.settings import Settings
from tests.cases import Case, load_cases
from tests.pools import BATCH, put
from tests.running import InProcess, in_process

pytestmark = pytest.mark.triton

SMALL_CASES = sorted(load_cases("plan"), key=lambda case: len(case.response["verify_slot_indices"]))[::12][:14]


@pytest.fixture(scope="module")
def kernels_service(kernel_device: Any) -> Iterator[InProcess]:
    with in_process(
        create_app(Settings(device=str(kernel_device), kernels="triton", deadline_seconds=3600))
    ) as running:
        yield running


@pytest.fixture(scope="module")
def printing_service(kernel_device: Any, kernels_service: InProcess) -> Iterator[InProcess]:
    """The same, all of whose answers are printed on the device. The interpreter runs kernels of one thread at a time,
    so that either service is asked once the other is at rest.
    """
    kernels_service.post("/plan", json=WORKED_EXAMPLES[0].request)
    settings = Settings(device=str(kernel_device), kernels="triton", deadline_seconds=3600)
    target = Target(kernel_device, backend_named("triton"))
    computer = PlanComputer(Workspace(target), plan_limits(settings), most_read=0)
    with in_process(create_app(settings, computer)) as running:
        running.post("/plan", json=WORKED_EXAMPLES[0].request)
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


@pytest.mark.parametrize("example", WORKED_EXAMPLES, ids=lambda example: example.name)
def test_printed_examples_are_the_encoded_ones(
    kernels_service: InProcess, printing_service: InProcess, example: Any
) -> None:
    for path in ("/plan", "/plan/offsets"):
        encoded, printed = (one.post(path, json=example.request) for one in (kernels_service, printing_service))
        assert (printed.status_code, printed.content) == (200, encoded.content)
        assert printed.headers["content-length"] == str(len(encoded.content))


def test_printed_groups_and_steps_are_the_encoded_ones(kernels_service: InProcess, printing_service: InProcess) -> None:
    groups = {"full": {}, "none": {"verify_capacity": 1}, "swa": {"swa_window_size": 2}}
    rows = {"flat_in": [5], "offsets": [0, 1], "req_pool_indices": [1]}
    for path, body in (
        ("/plan/groups", BATCH | {"pool": "p", "groups": groups}),
        ("/pools/p/step", {"scatter": {"req_to_token": rows}, "plan": BATCH}),
    ):
        answers = []
        for one in (kernels_service, printing_service):
            version = put(one, "p")
            answers.append(
                one.post(path, json=body).content.replace(b"%d" % version, b"v").replace(b"%d" % (version + 1), b"v")
            )
        assert answers[0] == answers[1]


@pytest.mark.parametrize("case", SMALL_CASES, ids=lambda case: case.id)
def test_recorded_cases_have_one_answer(service: InProcess, kernels_service: InProcess, case: Case) -> None:
    _same_answer(service, kernels_service, case.request)


@pytest.mark.parametrize("case", load_cases("error")[-20::4], ids=lambda case: case.id)
def test_recorded_errors_have_one_answer(service: InProcess, kernels_service: InProcess, case: Case) -> None:
    details = [running.post("/plan", json=case.request).json()["detail"] for running in (service, kernels_service)]
    assert details == [case.detail, case.detail]
