"""Runs each server in a process of its own on a free loopback port, and ends it. Knows no plan."""

import contextlib
import http.client
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType, MappingProxyType
from typing import IO, NoReturn

CHECKOUT = Path(__file__).parents[2]
"""Where this package was imported from, so that the servers run the same code; the repository, in a checkout."""
PLAIN_MODULE = "tests.load.plain_fastapi"
NO_HEADERS: Mapping[str, str] = MappingProxyType({})

_START_SECONDS = 300.0
"""Longest time from the start of a process to its first answer: a GPU compiles every kernel in it."""
_END_SECONDS = 20.0
_POLL_SECONDS = 0.05
_ANSWER_SECONDS = 120.0
_SHOWN_CHARACTERS = 2000
_UVICORN = (
    "uvicorn --http httptools --ws none --lifespan off --no-access-log --no-server-header --log-level warning "
    "--timeout-keep-alive 75 --host 127.0.0.1 --port"
)
"""The service's own settings of the server, where they matter for speed."""


class ServerError(RuntimeError):
    """A server that did not start or did not answer as it must; the message says what it did instead."""


@dataclass(frozen=True, slots=True)
class Program:
    """One server: what tables call it, how it is started, and what it answers.

    ``arguments`` are those of Python, the port comes in place of ``{port}``. ``ready_path`` answers 200 once it serves.
    """

    name: str
    title: str
    arguments: tuple[str, ...]
    ready_path: str
    computes: bool


SERVICE = Program(
    "service", "the service", ("-m", "service", "serve", "--host", "127.0.0.1", "--port", "{port}"), "/readyz", True
)
ECHO = Program("echo", "bare echo", ("-m", *_UVICORN.split(), "{port}", "service.bench.baselines:echo"), "/", False)
DRAIN = Program("drain", "bare drain", ("-m", *_UVICORN.split(), "{port}", "service.bench.baselines:drain"), "/", False)


def plain_program() -> Program | None:
    """The plain FastAPI implementation, None where there is no checkout that has it."""
    if not CHECKOUT.joinpath(*PLAIN_MODULE.split(".")).with_suffix(".py").exists():
        return None
    application = ("--factory", f"{PLAIN_MODULE}:create_app")
    return Program("plain", "plain FastAPI", ("-m", *_UVICORN.split(), "{port}", *application), "/openapi.json", True)


@dataclass(frozen=True, slots=True)
class RunningServer:
    """A started server and the file that it writes to."""

    program: Program
    port: int
    process: subprocess.Popen[bytes]
    log: IO[bytes]

    def request(
        self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] = NO_HEADERS
    ) -> tuple[int, bytes]:
        """Status and body of one request on a connection of its own; raises ``ServerError`` if there is no answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=_ANSWER_SECONDS)
        try:
            connection.request(method, path, body, dict(headers))
            answer = connection.getresponse()
            return answer.status, answer.read()
        except (OSError, http.client.HTTPException) as error:
            raise ServerError(f"{self.program.title} gave no answer to {method} {path}: {error!r}") from error
        finally:
            connection.close()

    def wait_until_ready(self) -> None:
        """Return once it is ready; raises ``ServerError`` if it ends before or takes too long."""
        deadline = time.monotonic() + _START_SECONDS
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise ServerError(f"{self.program.title} ended with {self.process.returncode}: {self._written()}")
            with contextlib.suppress(ServerError):
                if self.request("GET", self.program.ready_path)[0] == 200:
                    return
            time.sleep(_POLL_SECONDS)
        raise ServerError(f"{self.program.title} is not ready after {_START_SECONDS:g} seconds: {self._written()}")

    def end(self) -> None:
        """Wait for it to end, and kill it if it does not."""
        try:
            self.process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()

    def _written(self) -> str:
        self.log.seek(0)
        return self.log.read().decode(errors="replace")[-_SHOWN_CHARACTERS:].strip() or "it wrote nothing"


@contextmanager
def running(programs: Sequence[Program], environment: Mapping[str, str]) -> Iterator[dict[str, RunningServer]]:
    """The servers by name, each ready; all of them are ended with the ``with``, also by Ctrl-C, SIGTERM and SIGHUP.

    Raises ``ServerError`` for one that does not start.
    """
    servers: dict[str, RunningServer] = {}
    with _exit_on_signals():
        try:
            for program in programs:
                servers[program.name] = _start(program, environment)
            for server in servers.values():
                server.wait_until_ready()
            yield servers
        finally:
            for server in servers.values():
                server.process.terminate()
            for server in servers.values():
                server.end()


def _start(program: Program, environment: Mapping[str, str]) -> RunningServer:
    port = _free_port()
    arguments = [argument.replace("{port}", str(port)) for argument in program.arguments]
    log = tempfile.TemporaryFile()  # noqa: SIM115 - end() closes it
    # In a session of its own, so that Ctrl-C reaches this process alone and it ends the others in order.
    process = subprocess.Popen(
        [sys.executable, *arguments],
        cwd=CHECKOUT,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        start_new_session=True,
    )
    return RunningServer(program, port, process, log)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def _exit_on_signals() -> Iterator[None]:
    """Make the signals that end a process raise SystemExit, so that ``finally`` runs."""
    numbers = [signal.SIGTERM, signal.SIGHUP] if hasattr(signal, "SIGHUP") else [signal.SIGTERM]
    before = {number: signal.signal(number, _exit) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _exit(number: int, _: FrameType | None) -> NoReturn:
    sys.exit(128 + number)
