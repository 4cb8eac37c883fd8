"""The services that the contract tests share."""

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
    """The service over a loopback socket, host backend."""
    with on_socket(host_app()) as client:
        yield client
