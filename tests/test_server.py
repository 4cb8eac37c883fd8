"""The server process: the address it takes, how it starts, serves and ends, with one process and with several."""

import logging
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace

import httpx
import orjson
import pytest
import uvicorn
from uvicorn.config import STARTUP_FAILURE
from uvicorn.supervisors import Multiprocess

from service.server import ListenError, listen, serve_until_stopped
from service.settings import PREFIX, Settings
from tests.running import GOOD_REQUEST, GOOD_SLOTS, PATIENCE_SECONDS


def _has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


IPV6 = pytest.param(
    "::1", marks=pytest.mark.skipif(not _has_ipv6(), reason="needs ::1; turn IPv6 on for the loopback interface")
)
GOOD = orjson.dumps(GOOD_REQUEST)


@pytest.fixture(autouse=True)
def restored_process() -> Iterator[None]:
    """Leave loggers and signal handlers as they were found."""
    loggers = [logging.getLogger(name) for name in ("service", "uvicorn", "uvicorn.error", "uvicorn.access")]
    before = [(logger.handlers, logger.level, logger.propagate) for logger in loggers]
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in handlers.items():
        signal.signal(number, handler)
    for logger, (log_handlers, level, propagate) in zip(loggers, before, strict=True):
        logger.handlers, logger.propagate = log_handlers, propagate
        logger.setLevel(level)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", IPV6])
def test_a_free_port_is_taken_and_then_refused_to_others(host: str) -> None:
    with listen(host, 0) as listener:
        port = listener.getsockname()[1]
        assert port > 0
        assert listener.get_inheritable()
        listener.listen()
        with pytest.raises(ListenError, match=f"^cannot listen on {host} port {port}: Address already in use$"):
            listen(host, port)


@pytest.mark.parametrize("host", ["203.0.113.1", ""])
def test_an_address_that_is_not_this_machines_is_refused_by_name(host: str) -> None:
    if host == "":
        with listen(host, 0) as listener:
            assert listener.getsockname()[0] == "0.0.0.0"  # noqa: S104
        return
    with pytest.raises(ListenError, match=f"^cannot listen on {host} port 1: "):
        listen(host, 1)


@pytest.mark.parametrize("started", [True, False])
def test_one_process_that_ends_by_itself_fails_only_if_it_never_started(
    monkeypatch: pytest.MonkeyPatch, started: bool
) -> None:
    def run(server: uvicorn.Server, sockets: list[socket.socket]) -> None:
        sockets[0].close()
        server.started = started

    monkeypatch.setattr(uvicorn.Server, "run", run)
    codes: list[object] = []
    monkeypatch.setattr(sys, "exit", codes.append)
    serve_until_stopped(Settings(port=0, device="cpu"))
    assert codes == ([] if started else [STARTUP_FAILURE])


@pytest.mark.parametrize(
    ("host", "number"), [("127.0.0.1", signal.SIGTERM), pytest.param("::1", signal.SIGINT, marks=IPV6.marks)]
)
def test_one_process_serves_on_the_bound_socket_and_a_signal_ends_it_with_0(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], host: str, number: signal.Signals
) -> None:
    served: list[str] = []

    def run(_: uvicorn.Server, sockets: list[socket.socket]) -> None:
        with sockets[0] as listener:
            served.append(f"http://{host if host != '::1' else '[::1]'}:{listener.getsockname()[1]}")
        signal.raise_signal(number)

    monkeypatch.setattr(uvicorn.Server, "run", run)
    with pytest.raises(SystemExit) as caught:
        serve_until_stopped(Settings(host=host, port=0, device="cpu"))
    assert caught.value.code == 0
    assert f"listening on {served[0]}" in capsys.readouterr().err


@pytest.mark.parametrize("exit_codes", [[0, 0], [-15, 0], [0, STARTUP_FAILURE]])
def test_several_processes_are_supervised_and_their_failure_to_start_is_passed_on(
    monkeypatch: pytest.MonkeyPatch, exit_codes: list[int]
) -> None:
    def run(supervisor: Multiprocess) -> None:
        assert supervisor.processes_num == 2
        supervisor.processes = [SimpleNamespace(exitcode=code) for code in exit_codes]  # type: ignore[misc]
        supervisor.sockets[0].close()

    monkeypatch.setattr(Multiprocess, "run", run)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    settings = Settings(port=0, device="cpu", workers=2)
    if STARTUP_FAILURE in exit_codes:
        with pytest.raises(SystemExit) as caught:
            serve_until_stopped(settings)
        assert caught.value.code == STARTUP_FAILURE
    else:
        serve_until_stopped(settings)


class ServerProcess:
    """``kv-plan serve`` in a process of its own, and what it has written."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.lines: list[str] = []
        self.ended = False
        self._written = threading.Condition()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            with self._written:
                self.lines.append(line)
                self._written.notify_all()
        with self._written:
            self.ended = True
            self._written.notify_all()

    def wait_for(self, words: str, times: int = 1) -> str:
        """The last of so many lines that have the words, once they are written."""

        def found() -> bool:
            return sum(words in line for line in self.lines) >= times

        with self._written:
            self._written.wait_for(lambda: found() or self.ended, PATIENCE_SECONDS)
            assert found(), "".join(self.lines)
        return [line for line in self.lines if words in line][-1]

    def port(self) -> int:
        found = re.search(r"listening on http://127.0.0.1:(\d+)$", self.wait_for("listening on"))
        assert found is not None
        return int(found[1])

    def client(self, processes: int = 1) -> httpx.Client:
        """A client of the server, once so many of its processes have started."""
        self.wait_for("Application startup complete", processes)
        transport = httpx.HTTPTransport(retries=8)
        return httpx.Client(base_url=f"http://127.0.0.1:{self.port()}", transport=transport, timeout=PATIENCE_SECONDS)

    def end(self, number: signal.Signals) -> int:
        self.process.send_signal(number)
        return self.process.wait(PATIENCE_SECONDS)


@contextmanager
def serving(*options: str, **variables: str) -> Iterator[ServerProcess]:
    """A server process on a free port; killed if a test leaves it running."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}
    command = [sys.executable, "-m", "service", "serve", "--port", "0", "--device", "cpu", *options]
    with subprocess.Popen(
        command, env=environment | variables, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True
    ) as process:
        try:
            yield ServerProcess(process)
        finally:
            process.kill()


def test_serve_finishes_what_is_in_flight_and_then_ends_with_0() -> None:
    with serving() as server, server.client() as client:
        assert client.post("/plan", json=GOOD_REQUEST).json()["verify_slot_indices"] == GOOD_SLOTS
        with socket.create_connection(("127.0.0.1", server.port()), PATIENCE_SECONDS) as connection:
            head = b"POST /plan HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: %d\r\n\r\n" % len(GOOD)
            connection.sendall(head)
            assert connection.recv(65536).startswith(b"HTTP/1.1 100 "), "the server waits for the body"
            server.process.send_signal(signal.SIGTERM)
            server.wait_for("Shutting down")

            connection.sendall(GOOD)

            answer = b"".join(iter(lambda: connection.recv(65536), b""))
        assert answer.startswith(b"HTTP/1.1 200 ")
        assert b'"verify_slot_indices":[5,6]' in answer
        assert server.process.wait(PATIENCE_SECONDS) == 0


def test_a_client_that_stalls_does_not_hold_the_shutdown_up_for_ever() -> None:
    with serving(KV_PLAN_DEADLINE_SECONDS="0.5") as server, server.client() as client:
        assert client.get("/livez").status_code == 200
        with socket.create_connection(("127.0.0.1", server.port()), PATIENCE_SECONDS) as connection:
            connection.sendall(b"POST /plan HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: 9\r\n\r\n")
            assert connection.recv(65536).startswith(b"HTTP/1.1 100 ")
            assert server.end(signal.SIGINT) == 0


def test_several_workers_share_the_port_and_end_with_0() -> None:
    with serving("--workers", "2") as server, server.client(processes=2) as client:
        plans = [client.post("/plan", json=GOOD_REQUEST, headers={"connection": "close"}).json() for _ in range(8)]
        assert [plan["verify_slot_indices"] for plan in plans] == [GOOD_SLOTS] * 8
        assert len({line for line in server.lines if "Started server process" in line}) == 2
        assert server.end(signal.SIGTERM) == 0
