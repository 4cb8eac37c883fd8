"""What a server process does beside wiring the service together."""

import gc

import pytest
import torch

from service.app import create_app_from_environment, plan_limits, reading_of
from service.kernels.backend import Target, backend_named
from service.kernels.operands import INT64_MAX
from service.plan.transfer import Workspace
from service.runtime.computer import PlanComputer
from service.settings import Settings
from service.wire.quick_array import QuickArrayReader


def test_a_server_process_spares_collections_what_it_began_with(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KV_PLAN_DEVICE", "cpu")
    try:
        app = create_app_from_environment()
        assert gc.get_freeze_count() > 0
        assert not any(tracked is app for tracked in gc.get_objects())
    finally:
        gc.unfreeze()


@pytest.mark.triton
def test_what_is_large_is_read_and_printed_on_a_cuda_device_alone() -> None:
    here = Target(torch.device("cpu"), backend_named("triton"))
    computer = PlanComputer(Workspace(here), plan_limits(Settings()))
    with reading_of(here, computer)(b"{}") as reader:
        assert isinstance(reader.read_array, QuickArrayReader)
    assert (computer.most_read, len(computer.warm_up_others)) == (INT64_MAX, 0)
    with reading_of(Target(torch.device("cuda:0"), here.backend), computer)(b"{}") as reader:
        assert not isinstance(reader.read_array, QuickArrayReader)
    assert computer.most_read < INT64_MAX
    assert len(computer.warm_up_others) == 2
