"""The services that the HTTP tests share."""

from collections.abc import Iterator

import httpx
import pytest

from tests.running import InProcess, host_app, in_process, on_socket


@pytest.fixture(scope="session")
def service() -> Iterator[InProcess]:
    """The service in process, host backend."""
    with in_process(host_app()) as running:
        yield running


@pytest.fixture(scope="session")
def socket_client() -> Iterator[httpx.Client]:
    """A service over a loopback socket that takes bodies up to 4096 bytes."""
    with on_socket(host_app(max_body_bytes=4096)) as client:
        yield client
