"""The command line: what each command prints, writes and refuses, and with which exit code."""

import io
import json
import os
import re
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from service import __main__ as cli_module
from service import selftest as selftest_module
from service.__main__ import main
from service.http.examples import WINDOW, WORKED_EXAMPLES, WorkedExample
from service.runtime.computer import PlanComputer
from service.server import ListenError
from service.settings import Settings, variable_of
from tests.running import GOOD_REQUEST, PATIENCE_SECONDS

ROOT = Path(__file__).parent.parent
COMMANDS = ("serve", "openapi", "plan", "selftest", "info")
OPTIONS = {
    "serve": ("host", "port", "device", "workers"),
    "plan": ("device",),
    "selftest": ("device",),
    "info": ("device",),
}


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No variables of this machine, the CPU, a wide terminal without colours, and a folder of its own."""
    for name in Settings.model_fields:
        monkeypatch.setenv(variable_of(name), "restore me")
        monkeypatch.delenv(variable_of(name))
    monkeypatch.setenv("KV_PLAN_DEVICE", "cpu")
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> "Run":
    return Run(monkeypatch, capfdbinary)


class Run:
    """Runs one command in this process: exit code, standard output, standard error."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capture: pytest.CaptureFixture[bytes]) -> None:
        self._monkeypatch = monkeypatch
        self._capture = capture

    def __call__(self, *arguments: str) -> tuple[int, str, str]:
        self._monkeypatch.setattr(sys, "argv", ["kv-plan", *arguments])
        with pytest.raises(SystemExit) as caught:
            main()
        sys.stdout.flush()
        out, err = self._capture.readouterr()
        code = caught.value.code
        return (0 if code is None else int(code)), out.decode(), err.decode()


def _write(request: object) -> str:
    Path("batch.json").write_text(json.dumps(request), encoding="utf-8")
    return "batch.json"


def test_without_a_command_the_commands_are_shown(run: Run) -> None:
    _, out, err = run()
    assert all(command in out + err for command in COMMANDS)


@pytest.mark.parametrize("command", OPTIONS)
def test_help_names_the_variable_of_every_option(run: Run, command: str) -> None:
    code, out, _ = run(command, "--help")
    assert code == 0
    assert all(f"--{name}" in out and f"env var: {variable_of(name)}" in out for name in OPTIONS[command])


@pytest.mark.parametrize("command", COMMANDS)
def test_a_misspelt_option_is_refused(run: Run, command: str) -> None:
    code, _, err = run(command, "--devise", "cpu")
    assert code == 2
    assert "No such option: --devise" in err


@pytest.mark.parametrize("command", [["serve"], ["openapi"], ["plan", "-"], ["selftest"], ["info"]])
def test_a_misspelt_variable_ends_every_command_with_a_suggestion(
    run: Run, command: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KV_PLAN_PROT", "1")
    assert run(*command) == (2, "", "kv-plan: KV_PLAN_PROT: no such setting, did you mean KV_PLAN_PORT?\n")


@pytest.mark.parametrize("command", [["serve"], ["plan", "-"], ["selftest"], ["info"]])
def test_a_device_that_is_not_there_ends_every_command_with_one_line(
    run: Run, command: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    words = "kv-plan: KV_PLAN_DEVICE=cuda:7: this machine has 0 usable CUDA devices\n"
    assert run(*command, "--device", "cuda:7") == (2, "", words)


def test_a_file_is_answered_with_its_plan_as_json(run: Run) -> None:
    for example in WORKED_EXAMPLES:
        code, out, err = run("plan", _write(example.request))
        assert (code, err) == (0, "")
        assert json.loads(out) == example.response | {"device": "cpu", "backend": "host"}


def test_a_file_may_leave_tables_out_but_not_to_a_pool(run: Run) -> None:
    request = GOOD_REQUEST | {"full_to_swa_index_mapping": [0], "use_full_to_swa_index_mapping": False}
    code, out, _ = run("plan", _write(request))
    assert (code, json.loads(out)["verify_slot_indices"]) == (0, [5, 6])
    batch = {name: value for name, value in GOOD_REQUEST.items() if name != "req_to_token"}
    answer = run("plan", _write(batch | {"pool": "a"}))
    assert answer == (1, "", "there are no pools without a server; give the tables\n")


def test_standard_input_is_answered_like_a_file(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    body = json.dumps(GOOD_REQUEST).encode()
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(body)))
    code, out, _ = run("plan", "-")
    assert code == 0
    assert json.loads(out)["verify_slot_indices"] == [5, 6]


def test_a_plan_uses_the_kernels_that_are_asked_for(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KV_PLAN_KERNELS", "triton")
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    assert json.loads(run("plan", _write(GOOD_REQUEST))[1])["backend"] == "triton"


def test_a_refused_batch_ends_with_its_message(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    words = "kv-canary: req_pool_indices[0]=9 is outside req_to_token rows [0, 2)\n"
    assert run("plan", _write(GOOD_REQUEST | {"req_pool_indices": [9]})) == (1, "", words)
    monkeypatch.setenv("KV_PLAN_MAX_VERIFY_ENTRIES", "1")
    code, out, err = run("plan", _write(GOOD_REQUEST))
    assert (code, out) == (1, "")
    assert "KV_PLAN_MAX_VERIFY_ENTRIES" in err


def test_a_batch_without_memory_ends_with_its_message(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(PlanComputer, "__call__", fail)
    words = "cpu has not enough free memory for this request\n"
    assert run("plan", _write(GOOD_REQUEST)) == (1, "", words)


def test_a_file_that_cannot_be_read_is_named(run: Run) -> None:
    assert run("plan", "nothing.json") == (1, "", "cannot read nothing.json: No such file or directory\n")


def _cells(line: str) -> list[str]:
    return re.findall(r"[\w.-]+(?: \w+)*", line)


def test_a_table_shows_requests_and_entries(run: Run) -> None:
    code, out, _ = run("plan", "--table", _write(WINDOW.request))
    lines = [_cells(line) for line in out.splitlines()]
    assert code == 0
    assert out.startswith("3 requests, 3 verify entries (enabled)\n")
    assert ["0", "0..1", "0..1", "70"] in lines
    assert ["1", "none", "none", "-1"] in lines
    assert ["entry", "request", "position", "slot", "previous slot", "expected token"] in lines
    assert ["0", "0", "1", "50", "30", "102"] in lines
    assert ["2", "2", "0", "20", "-1", "201"] in lines


def test_the_table_of_a_disabled_plan_has_no_entries(run: Run) -> None:
    _, out, _ = run("plan", "--table", _write(GOOD_REQUEST | {"verify_capacity": 1}))
    assert out.startswith("1 requests, 2 verify entries (disabled: the capacity is 1)\n")
    assert "previous slot" not in out


def test_a_long_table_is_cut_and_says_so(run: Run) -> None:
    request = GOOD_REQUEST | {"prefix_lens": [201], "req_to_token": [[0] * 201, list(range(201))]}
    _, out, _ = run("plan", "--table", _write(request))
    assert ["199", "0", "199", "199", "198", "-1"] in [_cells(line) for line in out.splitlines()]
    assert out.endswith("and 1 more\n")


def test_the_selftest_tells_device_stages_and_results(run: Run) -> None:
    code, out, err = run("selftest")
    assert (code, err) == (0, "")
    assert out.startswith("device cpu (")
    assert "backend host" in out
    for check in ("warm-up", *(example.name for example in WORKED_EXAMPLES)):
        assert re.search(rf"{check}\W+right", out)
    assert out.count("compute;dur=") == len(WORKED_EXAMPLES)


def test_the_selftest_fails_on_a_wrong_answer(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = WorkedExample("spoilt", "", WINDOW.request, WINDOW.response | {"verify_total": 4})
    refused = WorkedExample("refused", "", {}, {})
    monkeypatch.setattr(selftest_module, "WORKED_EXAMPLES", (WINDOW, wrong, refused))
    code, out, err = run("selftest")
    assert (code, err) == (1, "2 checks of the self-test failed\n")
    assert re.findall(r"(right|WRONG)", out) == ["right", "right", "WRONG", "WRONG"]


def test_the_selftest_fails_when_the_warm_up_failed(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: PlanComputer) -> None:
        raise RuntimeError("no device")

    monkeypatch.setattr(PlanComputer, "warm_up", fail)
    code, out, err = run("selftest")
    assert code == 1
    assert re.search(r"warm-up\W+WRONG", out)
    assert "1 checks of the self-test failed" in err


def test_the_selftest_does_not_wait_for_a_warm_up_for_ever(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    let = threading.Event()

    def no_example() -> Iterator[WorkedExample]:
        """Let the warm-up end once it has been waited for, so that the device thread can be closed."""
        let.set()
        yield from ()

    monkeypatch.setattr(PlanComputer, "warm_up", lambda _: let.wait(PATIENCE_SECONDS))
    monkeypatch.setattr(selftest_module, "_READY_PAUSE_SECONDS", 0)
    monkeypatch.setattr(selftest_module, "_READY_ATTEMPTS", 3)
    monkeypatch.setattr(selftest_module, "WORKED_EXAMPLES", no_example())
    code, out, _ = run("selftest")
    assert code == 1
    assert re.search(r"warm-up\W+WRONG", out)


def test_info_is_what_the_service_tells(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KV_PLAN_MAX_REQUESTS", "7")
    code, out, _ = run("info")
    told = json.loads(out)
    assert code == 0
    assert (told["device"], told["backend"]) == ("cpu", "host")
    settings = {setting["name"]: setting["value"] for setting in told["settings"]}
    assert settings == Settings(device="cpu", max_requests=7).model_dump()


def test_the_schema_is_written_compared_and_independent_of_the_settings(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    out_of_date = (1, "", "openapi.json is out of date; run: make openapi\n")
    assert run("openapi", "--check") == out_of_date
    assert not Path("openapi.json").exists()
    assert run("openapi") == (0, "", "")
    assert run("openapi", "--check") == (0, "", "")
    written = Path("openapi.json").read_bytes()
    assert written == (ROOT / "openapi.json").read_bytes()
    for name, value in (("device", "cuda:9"), ("kernels", "triton"), ("max_requests", "3"), ("root_path", "/kv")):
        monkeypatch.setenv(variable_of(name), value)
    assert run("openapi", "--check") == (0, "", "")
    Path("openapi.json").write_bytes(written.replace(b"integer", b"number"))
    assert run("openapi", "--check") == out_of_date


@pytest.mark.parametrize(("name", "value"), [("host", "::1"), ("port", "0"), ("device", "auto"), ("workers", "2")])
def test_an_option_of_serve_goes_over_its_variable(
    run: Run, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    served: list[Settings] = []
    monkeypatch.setattr(cli_module, "serve_until_stopped", served.append)
    by_option = run("serve", f"--{name}", value)
    monkeypatch.setenv(variable_of(name), value)
    by_variable = run("serve")
    assert by_option == by_variable == (0, "", "")
    assert served[0] == served[1]
    assert str(getattr(served[0], name)) == value
    assert os.environ[variable_of(name)] == value, "for the server processes"


def test_an_address_that_cannot_be_listened_on_ends_serve_with_one_line(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: Settings) -> None:
        raise ListenError("cannot listen on [here] port 1: no")

    monkeypatch.setattr(cli_module, "serve_until_stopped", refuse)
    assert run("serve") == (2, "", "kv-plan: cannot listen on [here] port 1: no\n")
