"""A whole measurement over HTTP with real servers: its files, its refusals, and nothing left running."""

import json
import math
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from service.bench import http_command, http_run, servers
from service.bench.command import run_bench
from service.bench.http_scenarios import SCENARIOS
from service.bench.servers import RunningServer, running

QUICK = ("--quick", "--device", "cpu")
PATIENCE_SECONDS = 120.0
WRONG_PLAIN = """
from fastapi import FastAPI

def create_app() -> FastAPI:
    app = FastAPI()

    @app.post("/plan")
    async def plan() -> dict[str, int]:
        return {"verify_num_valid": 0}

    return app
"""
Processes = list[subprocess.Popen[bytes]]


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch) -> Processes:
    """Every server process that a measurement starts; the service has no settings of this machine."""
    started: Processes = []

    @contextmanager
    def noting(programs: Sequence[Any], environment: dict[str, str]) -> Iterator[dict[str, RunningServer]]:
        with running(programs, environment) as found:
            started.extend(server.process for server in found.values())
            yield found

    monkeypatch.setattr(http_command, "running", noting)
    for name in [name for name in os.environ if name.startswith("KV_PLAN_")]:
        monkeypatch.delenv(name)
    return started


def test_a_quick_measurement_writes_its_numbers_and_its_picture(
    processes: Processes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = run_bench([*QUICK, "--output", str(tmp_path / "new")], "bench")
    out, err = capsys.readouterr()
    assert code == 0, err
    told = json.loads((tmp_path / "new" / "http.json").read_text(encoding="utf-8"))
    assert (told["kind"], told["device"], told["backend"], told["left_out"]) == ("http", "cpu", "host", [])
    assert set(told["servers"]) == {"service", "plain", "echo", "drain"}
    assert [scenario["name"] for scenario in told["scenarios"]] == [scenario.name for scenario in SCENARIOS]
    for scenario in told["scenarios"]:
        assert_sane(scenario, out)
    picture = ElementTree.parse(tmp_path / "new" / "http.svg")  # noqa: S314 - written just now
    assert len(list(picture.iter("{http://www.w3.org/2000/svg}circle"))) >= 2 * 16
    assert len(processes) == 4
    assert None not in [process.poll() for process in processes]


def assert_sane(scenario: dict[str, Any], out: str) -> None:
    """Every server measured at every concurrency, or left out for want of a pool."""
    assert scenario["title"] in out
    if scenario["skipped"]:
        assert scenario["name"] == "small_pool"
        assert scenario["skipped"] in out
        return
    cells = scenario["cells"]
    assert [(cell["concurrency"], cell["server"]) for cell in cells] == [
        (concurrency, server) for concurrency in (1, 4) for server in ("service", "plain", "echo", "drain")
    ]
    for cell in cells:
        assert cell["rounds"] == 2
        assert 2 <= cell["requests"] <= 200
        assert 0 < cell["p50_seconds"] <= cell["p99_seconds"]
        assert cell["requests_per_second"] > 0
        assert math.isfinite(cell["service_speedup"])
        stages = {"decode", "queue", "compute", "encode"} if cell["server"] == "service" else set()
        assert set(cell["stage_seconds"]) >= stages


@pytest.fixture
def small_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing but the small batch."""
    monkeypatch.setattr(http_run, "SCENARIOS", SCENARIOS[:1])


@pytest.mark.usefixtures("small_only")
def test_a_wrong_baseline_ends_it_before_any_ratio(
    processes: Processes, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for package in ("tests", "tests/load"):
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").touch()
    (tmp_path / "tests/load/plain_fastapi.py").write_text(WRONG_PLAIN, encoding="utf-8")
    (tmp_path / "service").symlink_to(servers.CHECKOUT / "service")
    monkeypatch.setattr(servers, "CHECKOUT", tmp_path)
    assert run_bench([*QUICK, "--output", str(tmp_path / "results")], "bench") == 1
    out, err = capsys.readouterr()
    assert "bench: no result: plain FastAPI, small_inline: verify_offsets is None, not [0, " in err
    assert "requests/s" not in out
    assert "as fast" not in out
    assert not (tmp_path / "results").exists()
    assert len(processes) == 4
    assert None not in [process.poll() for process in processes]


@pytest.mark.usefixtures("small_only")
def test_outside_a_checkout_the_plain_implementation_is_left_out_and_it_says_so(
    processes: Processes, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "service").symlink_to(servers.CHECKOUT / "service")
    monkeypatch.setattr(servers, "CHECKOUT", tmp_path)
    assert run_bench([*QUICK, "--output", str(tmp_path)], "bench") == 0
    assert "plain FastAPI is left out: " in capsys.readouterr().out
    told = json.loads((tmp_path / "http.json").read_text(encoding="utf-8"))
    assert set(told["servers"]) == {"service", "echo", "drain"}
    assert len(told["left_out"]) == 1
    assert len(processes) == 3


def test_a_service_that_does_not_start_is_quoted(processes: Processes, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_bench(["--quick", "--device", "nothing"], "bench") == 1
    assert re.search(r"no result: the service ended with 2: kv-plan: KV_PLAN_DEVICE: ", capsys.readouterr().err)
    assert processes == []


def descendants(pid: int) -> list[int]:
    """Processes that a process has started."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="utf-8").split()]


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc; run it on Linux")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 128 + signal.SIGTERM)])
def test_an_interrupted_measurement_leaves_no_process(tmp_path: Path, number: signal.Signals, code: int) -> None:
    arguments = ["--device", "cpu", "--rounds", "1000", "--output", str(tmp_path)]
    command = [sys.executable, "-m", "service.bench", *arguments]
    # A shell has its background jobs ignore SIGINT, and these tests may run in one.
    heard = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    with subprocess.Popen(
        command, cwd=servers.CHECKOUT, stderr=subprocess.PIPE, text=True, preexec_fn=heard
    ) as process:
        watchdog = threading.Timer(PATIENCE_SECONDS, process.kill)
        watchdog.start()
        assert process.stderr is not None
        assert process.stderr.readline().startswith("0/"), "a cell is being measured"
        children = descendants(process.pid)
        assert len(children) == 4
        process.send_signal(number)
        assert process.wait(PATIENCE_SECONDS) == code
        watchdog.cancel()
    assert [child for child in children if Path(f"/proc/{child}").exists()] == []
    assert list(tmp_path.iterdir()) == []
