"""The benchmark's options, what they lead to and with which exit code it ends."""

import re
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from service import __main__ as service_main
from service.bench import __main__ as bench_main
from service.bench import command, http_command
from service.bench.command import run_bench
from service.bench.equality import DifferentAnswer
from service.bench.http_run import HttpOptions
from service.bench.kernel_scenarios import KERNEL_SCENARIOS
from service.bench.servers import ServerError

Calls = list[tuple[Any, ...]]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    """What would have been measured."""
    noted: Calls = []
    monkeypatch.delenv("KV_PLAN_DEVICE", raising=False)
    monkeypatch.setattr(http_command, "run_http", lambda *arguments: noted.append(arguments))
    monkeypatch.setattr(command, "run_kernels", lambda *arguments: noted.append(arguments))
    monkeypatch.setattr(command, "run_codecs", lambda *arguments: noted.append(arguments))
    return noted


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        ([], HttpOptions((1, 16, 64), 2000, 3.0, 5)),
        (["--quick"], HttpOptions((1, 4), 100, 1.0, 2)),
        (["--quick", "--requests", "7", "--seconds", "0.5", "--rounds", "3"], HttpOptions((1, 4), 7, 0.5, 3)),
        (["--concurrency", "4,8"], HttpOptions((4, 8), 2000, 3.0, 5)),
    ],
)
def test_options_of_http(calls: Calls, arguments: list[str], options: HttpOptions) -> None:
    assert run_bench(arguments, "bench") == 0
    assert calls == [(options, Path("bench"), None)]


def test_folder_and_device_are_passed_on(calls: Calls) -> None:
    assert run_bench(["--output", "there", "--device", "cuda:1"], "bench") == 0
    assert calls[0][1:] == (Path("there"), "cuda:1")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--requests", "0"], "0 is no whole number above 0"),
        (["--rounds", "1.5"], "1.5 is no whole number above 0"),
        (["--concurrency", "1,x"], "x is no whole number above 0"),
        (["--seconds", "inf"], "inf is no number above 0"),
        (["--seconds", "soon"], "soon is no number above 0"),
        (["--kernels", "--codecs"], "not allowed with argument"),
        (["--quik"], "unrecognized arguments: --quik"),
        (["--qui"], "unrecognized arguments: --qui"),
    ],
)
def test_a_wrong_option_is_refused(
    calls: Calls, capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    with pytest.raises(SystemExit) as caught:
        run_bench(arguments, "bench")
    assert caught.value.code == 2
    assert words in capsys.readouterr().err
    assert calls == []


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (DifferentAnswer("x is 1, not 2"), 1, "bench: no result: x is 1, not 2\n"),
        (ServerError("it ended"), 1, "bench: no result: it ended\n"),
        (KeyboardInterrupt(), 130, "bench: interrupted\n"),
    ],
)
def test_an_end_without_a_result_has_its_exit_code(
    calls: Calls,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    error: BaseException,
    code: int,
    words: str,
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(http_command, "run_http", fail)
    assert run_bench([], "bench") == code
    assert capsys.readouterr().err == words


def test_http_names_the_packages_that_it_lacks(
    calls: Calls, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "is_installed", lambda package: package not in ("httptools", "orjson"))
    assert run_bench([], "bench") == 2
    words = "bench: measuring over HTTP needs httptools, orjson; --kernels and --codecs do not\n"
    assert capsys.readouterr().err == words
    assert calls == []


@pytest.mark.parametrize("arguments", [["--device", "cpu"], []])
def test_kernels_need_a_gpu(
    calls: Calls, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert run_bench(["--kernels", *arguments], "bench") == 2
    assert capsys.readouterr().err == "bench: --kernels needs a CUDA device, not cpu\n"
    assert calls == []


def test_a_gpu_that_is_not_there_is_named(
    calls: Calls, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setenv("KV_PLAN_DEVICE", "cuda:9")
    assert run_bench(["--kernels"], "bench") == 2
    assert "cuda:9: this machine has 0 usable CUDA devices" in capsys.readouterr().err


@pytest.mark.parametrize(("arguments", "rounds"), [([], 9), (["--quick"], 2), (["--rounds", "4"], 4)])
def test_kernels_are_measured_on_the_gpu(
    calls: Calls, monkeypatch: pytest.MonkeyPatch, arguments: list[str], rounds: int
) -> None:
    device = torch.device("cuda:3")
    entered: list[torch.device] = []

    class Device:
        def __init__(self, device: torch.device) -> None:
            entered.append(device)

        def __enter__(self) -> None:
            pass

        def __exit__(self, *_: object) -> None:
            pass

    monkeypatch.setattr(
        command, "resolve_target", lambda name, _: SimpleNamespace(device=device if name == "auto" else 0)
    )
    monkeypatch.setattr(torch.cuda, "device", Device)
    assert run_bench(["--kernels", *arguments, "--output", "there"], "bench") == 0
    ((shapes, on, _, options, output),) = calls
    assert (shapes, on, options.rounds, output) == (KERNEL_SCENARIOS, device, rounds, Path("there"))
    assert entered == [device]


@pytest.mark.parametrize(
    ("arguments", "texts", "rounds"), [([], 4, 5), (["--quick"], 2, 2), (["--quick", "--rounds", "4"], 2, 4)]
)
def test_codecs_are_measured(calls: Calls, arguments: list[str], texts: int, rounds: int) -> None:
    assert run_bench(["--codecs", *arguments], "bench") == 0
    ((options, output),) = calls
    assert (len(options.tables), len(options.entries), options.rounds) == (texts, texts, rounds)
    assert output == Path("bench")


def test_help_tells_every_option(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        run_bench(["--help"], "kv-plan bench")
    assert caught.value.code == 0
    told = set(re.findall(r"--[a-z]+", capsys.readouterr().out))
    names = ["kernels", "codecs", "quick", "concurrency", "requests", "seconds", "rounds", "device", "output"]
    assert told >= {f"--{name}" for name in names}


@pytest.mark.parametrize("arguments", [["--help"], ["--quick", "--output", "there"], ["--unknown", "word"]])
def test_the_command_line_passes_every_argument_on(monkeypatch: pytest.MonkeyPatch, arguments: list[str]) -> None:
    passed: list[tuple[list[str], str]] = []

    def note(arguments: list[str], program: str) -> int:
        passed.append((arguments, program))
        return 7

    monkeypatch.setattr(service_main, "run_bench", note)
    monkeypatch.setattr(sys, "argv", ["kv-plan", "bench", *arguments])
    with pytest.raises(SystemExit) as caught:
        service_main.main()
    assert caught.value.code == 7
    assert passed == [(arguments, "kv-plan bench")]


def test_the_package_runs_the_same_code() -> None:
    assert vars(bench_main)["run_bench"] is run_bench
