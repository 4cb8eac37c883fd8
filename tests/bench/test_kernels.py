"""The measurement of the kernels: plans are proved before they are timed, and the numbers are what was timed."""

import json
import math
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from service.bench import cuda_timing, kernel_run
from service.bench.batches import BatchShape, draw_batch
from service.bench.cuda_timing import CudaTimer
from service.bench.equality import DifferentAnswer
from service.bench.kernel_command import run_kernels
from service.bench.kernel_run import KernelOptions, bind, measure_kernels, require_right_plan
from service.bench.kernel_scenarios import LARGE_TABLE, SMALL_TABLE, TEN_SCENARIOS
from service.plan import launch_canary_plan_kernels

CPU = torch.device("cpu")
OPTIONS = KernelOptions(rounds=3, copy_bytes=1000)
SHAPES = (
    BatchShape("empty", (0,), 2, 1),
    BatchShape("tokens", (4, 9, 0), 4, 10, tokens=True),
    BatchShape("window", (9,) * 300, 301, 10, window=4, tokens=True),
)


class FakeTimer:
    """A timer whose n-th replay takes n seconds."""

    def __init__(self) -> None:
        self.replays = 0
        self.captured: list[Callable[[], object]] = []

    def capture(self, launch: Callable[[], object]) -> Callable[[], float]:
        """A replay that launches."""
        self.captured.append(launch)

        def replay() -> float:
            launch()
            self.replays += 1
            return float(self.replays)

        return replay

    def host_seconds(self, _: Callable[[], object]) -> float:
        """Always the same."""
        return 0.25


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_a_right_plan_is_proved_and_ready_to_be_launched(shape: BatchShape) -> None:
    plan = require_right_plan(shape, CPU)
    answer = plan.answer()
    assert (answer["verify_num_valid"], answer["verify_enable"]) == (shape.entries, True)
    plan.verify.zero_for_testing_()
    plan.write.zero_for_testing_()
    plan.launch()
    assert plan.answer() == answer


@pytest.mark.gpu
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_a_right_plan_is_proved_on_a_gpu(shape: BatchShape, kernel_device: torch.device) -> None:
    assert require_right_plan(shape, kernel_device).answer()["verify_num_valid"] == shape.entries


@pytest.mark.parametrize("short", [True, False])
def test_a_wrong_plan_is_told(monkeypatch: pytest.MonkeyPatch, short: bool) -> None:
    launch = launch_canary_plan_kernels
    shape = BatchShape("wrong", (9000,), 2, 9001)
    calls = 0

    def spoil(**arguments: object) -> None:
        nonlocal calls
        launch(**arguments)  # type: ignore[arg-type]
        calls += 1
        if calls == (1 if short else 3):  # short on the device, short on the host, as it is on the device
            arguments["verify_plan_out"].verify_slot_indices[5] += 1  # type: ignore[attr-defined]

    monkeypatch.setattr(kernel_run, "launch_canary_plan_kernels", spoil)
    words = rf"^wrong{', short,' if short else ''} on cpu: verify_slot_indices\[5\] is \d+, not \d+$"
    with pytest.raises(DifferentAnswer, match=words):
        require_right_plan(shape, CPU)


def test_scenarios_and_the_copy_are_taken_in_turn_and_medians_told() -> None:
    timer = FakeTimer()
    begun: list[str] = []
    plans = {shape: bind(draw_batch(shape), shape.entries) for shape in SHAPES}
    results = measure_kernels(plans, timer, OPTIONS, begun.append)
    assert len(timer.captured) == 4
    assert begun == ["round 1 of 3", "round 2 of 3", "round 3 of 3"]
    assert [cell.replay_seconds for cell in results.cells] == [5.0, 6.0, 7.0]
    assert results.copy_bytes_per_second == 2 * 1000 / 8.0
    assert [cell.host_seconds for cell in results.cells] == [0.25] * 3
    assert [(cell.name, cell.bs, cell.entries) for cell in results.cells] == [
        ("empty", 1, 0),
        ("tokens", 3, 13),
        ("window", 300, 1200),
    ]
    assert [cell.moved_bytes for cell in results.cells] == [48, 13 * 40 + 3 * 48, 1200 * 48 + 300 * 48]
    assert results.share_of_copy(results.cells[0]) == pytest.approx(48 / 5.0 / 250.0)
    assert results.seconds(SHAPES[1]) == 6.0


def test_the_command_prints_and_writes_cells_and_ratios(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small, large = (replace(shape, prefix_lens=(7,) * 3, cols=9) for shape in (SMALL_TABLE, LARGE_TABLE))
    run_kernels([*SHAPES, small, large], CPU, FakeTimer(), OPTIONS, tmp_path / "new")
    out = capsys.readouterr().out
    assert "5 scenarios: every plan is the host backend's, and with short lengths the reference's" in out
    assert "table_64x1024" in out
    told = json.loads((tmp_path / "new" / "kernels.json").read_text(encoding="utf-8"))
    assert (told["kind"], told["device"], told["ratios"]) == ("kernels", "cpu", {})
    assert told["options"] == {"rounds": 3, "copy_bytes": 1000}
    assert told["copy_bytes_per_second"] > 0
    assert [cell["name"] for cell in told["cells"]][-1] == "table_4096x8192"
    assert all(math.isfinite(cell["share_of_copy"]) and cell["replay_seconds"] > 0 for cell in told["cells"])


def test_the_ratio_of_a_compared_pair_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.bench.kernel_command.COMPARED", ((SHAPES[2], SHAPES[1], "a against b"),))
    run_kernels(SHAPES, CPU, FakeTimer(), OPTIONS, tmp_path)
    assert f"{7 / 6:.2f} x the time: a against b\n" in capsys.readouterr().out
    told = json.loads((tmp_path / "kernels.json").read_text(encoding="utf-8"))
    assert told["ratios"] == {"a against b": pytest.approx(7 / 6)}


class FakeCuda:
    """The parts of ``torch.cuda`` that time launches; each replayed launch takes a microsecond."""

    def __init__(self) -> None:
        self.launches = 0
        self.now_milliseconds = 0.0
        self.waits = 0

    def launch(self) -> None:
        """Count a launch."""
        self.launches += 1

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Stand in for the real ones."""
        fake = self

        class Graph:
            def __enter__(self) -> None:
                self.before = fake.launches

            def __exit__(self, *_: object) -> None:
                self.captured = fake.launches - self.before

            def replay(self) -> None:
                fake.now_milliseconds += 1e-3 * self.captured

        class Event:
            def __init__(self, enable_timing: bool) -> None:
                assert enable_timing

            def record(self) -> None:
                self.at = fake.now_milliseconds

            def synchronize(self) -> None:
                fake.waits += 1

            def elapsed_time(self, later: "Event") -> float:
                return later.at - self.at

        def synchronize() -> None:
            fake.waits += 1

        monkeypatch.setattr(torch.cuda, "CUDAGraph", Graph)
        monkeypatch.setattr(torch.cuda, "graph", lambda graph: graph)
        monkeypatch.setattr(torch.cuda, "Event", Event)
        monkeypatch.setattr(torch.cuda, "synchronize", synchronize)


def test_a_replay_is_the_time_of_one_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    cuda = FakeCuda()
    cuda.install(monkeypatch)
    replay = CudaTimer().capture(cuda.launch)
    assert cuda.launches == 1 + cuda_timing._LAUNCHES_PER_GRAPH
    assert replay() == pytest.approx(1e-6)
    assert replay() == pytest.approx(1e-6)


def test_the_hosts_time_is_that_of_a_launch_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    cuda = FakeCuda()
    cuda.install(monkeypatch)
    clock = iter(range(10**6))
    monkeypatch.setattr(time, "perf_counter", lambda: float(next(clock)))
    assert CudaTimer().host_seconds(cuda.launch) == 1.0
    assert cuda.launches == cuda_timing._HOST_BATCHES * cuda_timing._HOST_CALLS
    assert cuda.waits == cuda_timing._HOST_BATCHES + 1


@pytest.mark.gpu
def test_a_gpu_is_timed(kernel_device: torch.device) -> None:
    plan = require_right_plan(TEN_SCENARIOS[0], kernel_device)
    with torch.cuda.device(kernel_device):
        assert CudaTimer().capture(plan.launch)() > 0
        assert CudaTimer().host_seconds(plan.launch) > 0
