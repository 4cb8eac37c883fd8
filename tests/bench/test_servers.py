"""The servers of a measurement: they start in processes of their own, say why if not, and are gone afterwards."""

import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from service.bench import servers
from service.bench.servers import DRAIN, ECHO, SERVICE, Program, ServerError, plain_program, running

STUBBORN = """
import http.server, signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
http.server.HTTPServer(("127.0.0.1", {port}), http.server.SimpleHTTPRequestHandler).serve_forever()
"""


STARTED: list[subprocess.Popen[bytes]] = []


def program(code: str, ready_path: str = "/") -> Program:
    """A server that is a piece of Python."""
    return Program("it", "this one", ("-c", code), ready_path, computes=False)


def test_a_server_answers_and_is_gone_afterwards() -> None:
    with running([ECHO, DRAIN], {}) as found:
        assert found["echo"].request("POST", "/any", b"abc", {"content-type": "text/plain"}) == (200, b"abc")
        assert found["drain"].request("POST", "/any", b"abc") == (200, b"{}")
        processes = [server.process for server in found.values()]
        assert [process.poll() for process in processes] == [None, None]
    assert None not in [process.poll() for process in processes]
    with pytest.raises(ServerError, match=r"^bare echo gave no answer to GET /: ConnectionRefusedError"):
        found["echo"].request("GET", "/")


def interrupted(interrupt: Callable[[], None]) -> None:
    """Start a server and call ``interrupt`` while it is there; its process is noted."""
    with running([ECHO], {}) as found:
        STARTED.append(found["echo"].process)
        interrupt()


def raise_keyboard_interrupt() -> None:
    """What Ctrl-C does."""
    raise KeyboardInterrupt


def test_a_server_is_gone_after_an_interruption() -> None:
    with pytest.raises(KeyboardInterrupt):
        interrupted(raise_keyboard_interrupt)
    assert STARTED.pop().poll() is not None


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_that_ends_this_process_ends_the_servers_first(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with pytest.raises(SystemExit) as caught:
        interrupted(lambda: signal.raise_signal(number))
    assert caught.value.code == 128 + number
    assert STARTED.pop().poll() is not None
    assert signal.getsignal(number) == before


def test_where_there_is_no_hangup_it_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(signal, "SIGHUP")
    with pytest.raises(SystemExit) as caught, running([], {}):
        signal.raise_signal(signal.SIGTERM)
    assert caught.value.code == 128 + signal.SIGTERM


def test_a_server_that_does_not_end_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servers, "_END_SECONDS", 0.2)
    with running([program(STUBBORN)], {}) as found:
        process = found["it"].process
    assert process.poll() == -signal.SIGKILL


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("import sys; sys.exit('no luck {port}')", r"^this one ended with 1: no luck \d+$"),
        ("", "^this one ended with 0: it wrote nothing$"),
    ],
)
def test_a_server_that_ends_at_once_is_quoted(code: str, words: str) -> None:
    with pytest.raises(ServerError, match=words), running([program(code)], {}):
        pass


@pytest.mark.parametrize("code", ["import time; time.sleep(60)", STUBBORN])
def test_a_server_that_never_gets_ready_is_given_up(monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    monkeypatch.setattr(servers, "_START_SECONDS", 1.0)
    monkeypatch.setattr(servers, "_END_SECONDS", 0.2)
    with (
        pytest.raises(ServerError, match=r"^this one is not ready after 1 seconds: "),
        running([program(code, "/no-such-file")], {}),
    ):
        pass


def test_the_environment_is_passed_on() -> None:
    code = "import os, sys; sys.exit(os.environ['KV_PLAN_DEVICE'])"
    with (
        pytest.raises(ServerError, match=r"ended with 1: cuda:5$"),
        running([program(code)], {"KV_PLAN_DEVICE": "cuda:5"}),
    ):
        pass


def test_the_plain_implementation_is_found_in_a_checkout_only(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = plain_program()
    assert found is not None
    assert found.computes
    assert SERVICE.computes
    monkeypatch.setattr(servers, "CHECKOUT", tmp_path)
    assert plain_program() is None
