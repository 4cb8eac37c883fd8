"""A compiled kernel is launched past Triton's dispatch, unless somebody has to be told."""

from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
import torch

from tests.batches import Shape, draw_batch
from tests.kernels.harness import run_backend
from tests.kernels.test_plan_backends import assert_equals_reference

pytestmark = pytest.mark.triton

CPU = torch.device("cpu")


class Constants(NamedTuple):
    """The constants of a kernel."""

    FLAG: bool
    BLOCK: int


class Compiled:
    """What Triton makes of a kernel."""

    function = 11
    packed_metadata = (4, 1, 0)

    def __init__(self) -> None:
        self.launches: list[tuple[Any, ...]] = []

    def run(self, *launch: Any) -> None:
        self.launches.append(launch)


class Kernel:
    """A kernel that notes how it is launched."""

    def __init__(self) -> None:
        self.compiled: dict[str, Compiled] = {}
        self.dispatched: list[Any] = []

    def warmup(self, *_arguments: Any, **keywords: Any) -> Compiled:
        constants = {name: value for name, value in keywords.items() if name != "grid"}
        return self.compiled.setdefault(str(constants), Compiled())

    def __getitem__(self, grid: tuple[int]) -> Any:
        return lambda *arguments, **constants: self.dispatched.append((grid, arguments, constants))


@pytest.fixture
def launches(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The launcher's module, on a device with stream 7 and nobody who follows launches."""
    from service.kernels import _launcher

    runtime = SimpleNamespace(launch_enter_hook=None, launch_exit_hook=SimpleNamespace(calls=[]))
    monkeypatch.setattr(_launcher, "knobs", SimpleNamespace(runtime=runtime))
    active = SimpleNamespace(get_current_stream=lambda _index: 7)
    monkeypatch.setattr(_launcher, "driver", SimpleNamespace(active=active))
    return _launcher


def test_each_variant_is_compiled_once_and_launched_with_addresses(launches: Any) -> None:
    kernel = Kernel()
    launcher = launches.Launcher(kernel)
    vector, one, two = torch.zeros(3), Constants(True, 8), Constants(False, 8)
    assert launcher.variant(CPU, one) is None
    assert launcher.compile(CPU, (vector,), (5,), [one, two]) is launcher.variant(CPU, one)
    launcher.variant(CPU, two).launch(9, (vector,), (5,))
    assert not kernel.dispatched
    assert not kernel.compiled[str(one._asdict())].launches
    assert kernel.compiled[str(two._asdict())].launches == [
        (9, 1, 1, 7, 11, (4, 1, 0), None, None, None, vector.data_ptr(), 5, False, 8)
    ]


@pytest.mark.parametrize("hook", ["launch_enter_hook", "launch_exit_hook"])
def test_a_profiler_is_told_of_launches(hook: str, launches: Any) -> None:
    kernel = Kernel()
    variant = launches.Launcher(kernel).compile(CPU, (), (1,), [Constants(True, 8)])
    setattr(launches.knobs.runtime, hook, SimpleNamespace(calls=[print]))
    variant.launch(2, (), (1,))
    assert kernel.dispatched == [((2,), (1,), {"FLAG": True, "BLOCK": 8})]


class WaitingConstants(NamedTuple):
    """The constants of a kernel that may begin early."""

    WAITS: bool


def test_only_a_kernel_that_waits_by_itself_may_begin_early(launches: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = Kernel()
    all_constants = [WaitingConstants(WAITS=True), WaitingConstants(WAITS=False)]
    waits = launches.Launcher(kernel).compile(CPU, (), (), all_constants)
    assert list(kernel.compiled) == ["{'WAITS': True, 'launch_pdl': True}", "{'WAITS': False}"]
    monkeypatch.setattr(launches.knobs.runtime, "launch_enter_hook", print)
    waits.launch(2, (), ())
    assert kernel.dispatched == [((2,), (), {"WAITS": True, "launch_pdl": True})]


@pytest.mark.parametrize(("blocked_above", "narrow_room"), [(-1, 2**30), (-1, -1), (1024, 2**30)])
@pytest.mark.parametrize(
    "shape",
    [
        Shape(bs=0),
        Shape(bs=33, lut=True, window=2**62),
        Shape(bs=9, cols=700, tokens=True, token_offset=-3),
        Shape(bs=600, cols=11, lut=True, tokens=True),
    ],
    ids=str,
)
def test_a_batch_is_planned_alike_in_any_way_that_can_take_it(
    shape: Shape,
    blocked_above: int,
    narrow_room: int,
    monkeypatch: pytest.MonkeyPatch,
    kernel_device: torch.device,
) -> None:
    from service.kernels import triton_backend

    shapes = [whole for whole in triton_backend._WHOLE_SHAPES[-1:] if whole.batch_block <= blocked_above]
    monkeypatch.setattr(triton_backend, "_WHOLE_SHAPES", shapes)
    monkeypatch.setattr(triton_backend, "_MOST_NARROW_ROOM", narrow_room)
    inputs = draw_batch(shape, seed=3)
    assert_equals_reference(run_backend("triton", inputs, kernel_device), inputs)
