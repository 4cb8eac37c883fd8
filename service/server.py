"""Runs the HTTP server: its socket, its log, its processes and how it ends. Knows no route."""

import copy
import logging
import math
import signal
import socket
import sys
from types import FrameType
from typing import Any, NoReturn

import uvicorn
from uvicorn.config import LOGGING_CONFIG, STARTUP_FAILURE
from uvicorn.supervisors import Multiprocess

from service.http.protocol import ProblemProtocol
from service.runtime.seats import seats_offered
from service.settings import Settings

_logger = logging.getLogger(__name__)


class ListenError(RuntimeError):
    """An address that cannot be listened on."""


def serve_until_stopped(settings: Settings) -> None:
    """Serve until SIGINT or SIGTERM, finish the work in flight, return or exit with 0.

    Raises ``ListenError`` before anything is loaded when the address is taken or not this machine's.
    """
    listener = listen(settings.host, settings.port)
    config = server_config(settings)
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    _logger.info("listening on http://%s:%d", host, listener.getsockname()[1])
    if settings.workers == 1:
        for number in (signal.SIGINT, signal.SIGTERM):  # the server raises it again once it has shut down
            signal.signal(number, _exit_cleanly)
        server = uvicorn.Server(config)
        server.run(sockets=[listener])
        if not server.started:
            sys.exit(STARTUP_FAILURE)
        return
    supervisor = Multiprocess(config, sockets=[listener])
    with seats_offered():
        supervisor.run()
    if any(process.exitcode == STARTUP_FAILURE for process in supervisor.processes):
        sys.exit(STARTUP_FAILURE)


def listen(host: str, port: int) -> socket.socket:
    """A socket bound to the address; port 0 takes a free one. Raises ``ListenError``."""
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise ListenError(f"cannot listen on {host} port {port}: {error.strerror}") from error
    listener.set_inheritable(True)
    return listener


def server_config(settings: Settings) -> uvicorn.Config:
    """What uvicorn is told, the same in every process."""
    return uvicorn.Config(
        "service.app:create_app_from_environment",
        factory=True,
        http=ProblemProtocol,
        ws="none",
        workers=settings.workers,
        root_path=settings.root_path,
        log_config=_log_config(settings.log_level),
        log_level=settings.log_level,
        access_log=False,
        timeout_keep_alive=settings.keep_alive_seconds,
        # By then every plan is answered or given up.
        timeout_graceful_shutdown=math.ceil(settings.body_timeout_seconds + settings.deadline_seconds),
        server_header=False,
        proxy_headers=False,  # nothing here asks who the client is
    )


def _log_config(level: str) -> dict[str, Any]:
    """The server's own log configuration, with the service's messages beside the server's."""
    config = copy.deepcopy(LOGGING_CONFIG)
    config["loggers"]["service"] = {"handlers": ["default"], "level": level.upper(), "propagate": False}
    return config


def _exit_cleanly(_signal: int, _frame: FrameType | None) -> NoReturn:
    sys.exit(0)
