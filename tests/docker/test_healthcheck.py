"""The image's probe tells the truth about /readyz, whatever answers there."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

PROBE = Path(__file__).parents[2] / "docker" / "healthcheck.py"


class Handler(BaseHTTPRequestHandler):
    """Answers /readyz with ``readiness``, anything else with 404."""

    readiness: int

    def do_GET(self) -> None:
        self.send_response(self.readiness if self.path == "/readyz" else 404)
        self.end_headers()
        self.wfile.write(b"the kernels are being warmed up")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name that it overrides
        """Nothing: the test's output is its own."""


@contextmanager
def serving(status: int) -> Iterator[str]:
    """The port of a server whose readiness is ``status``."""
    handler = type("ReadyHandler", (Handler,), {"readiness": status})
    with HTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield str(server.server_port)
        server.shutdown()
        thread.join()


def probe(**settings: str) -> subprocess.CompletedProcess[str]:
    """The probe as the image runs it, with these settings and no other environment."""
    command = [sys.executable, "-I", "-S", str(PROBE)]
    return subprocess.run(command, env=settings, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])  # noqa: S104 - only the probe is told
def test_a_ready_service_is_healthy(host: str) -> None:
    with serving(200) as port:
        answer = probe(KV_PLAN_HOST=host, KV_PLAN_PORT=port)
    assert (answer.returncode, answer.stderr) == (0, "")


def test_settings_are_read_in_any_case_as_the_service_does() -> None:
    with serving(200) as port:
        assert probe(kv_plan_port=port).returncode == 0


def test_a_service_that_is_not_ready_is_unhealthy_and_the_probe_says_why() -> None:
    with serving(503) as port:
        answer = probe(KV_PLAN_PORT=port)
    assert answer.returncode == 1
    assert answer.stderr == "/readyz answered 503: the kernels are being warmed up\n"


def test_a_closed_port_is_unhealthy() -> None:
    with serving(200) as port:
        pass
    answer = probe(KV_PLAN_PORT=port)
    assert answer.returncode == 1
    assert answer.stderr.startswith("/readyz did not answer: ")


@pytest.mark.parametrize("port", ["", "http", "70000"])
def test_a_port_that_is_none_is_unhealthy_without_a_traceback(port: str) -> None:
    answer = probe(KV_PLAN_PORT=port)
    assert answer.returncode == 1
    assert answer.stderr.startswith("/readyz did not answer: ")
    assert "Traceback" not in answer.stderr
