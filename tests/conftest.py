"""Set-up for every test: without a CUDA device the kernels run in Triton's interpreter."""

import os

import pytest
import torch

from service.kernels.backend import backend_named, triton_is_installed

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"
if triton_is_installed():
    backend_named("triton")  # imported here once, so that no test decides for the others whether it interprets


@pytest.fixture(scope="session")
def kernel_device() -> torch.device:
    """Where the kernels run: the first CUDA device, or the CPU under the interpreter."""
    return torch.device("cuda:0" if torch.cuda.is_available() else "cpu")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what needs Triton or a GPU where there is none; the same command runs it on a machine that has it."""
    if not triton_is_installed():
        no_triton = pytest.mark.skip(reason="needs Triton; install it where it has a wheel")
        for item in items:
            if item.get_closest_marker("triton"):
                item.add_marker(no_triton)
    if torch.cuda.is_available():
        return
    skip = pytest.mark.skip(reason="needs a CUDA device; run the same command on a machine that has one")
    for item in items:
        if item.get_closest_marker("gpu"):
            item.add_marker(skip)
