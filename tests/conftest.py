"""Set-up for every test: without a CUDA device the kernels run in Triton's interpreter."""

import os

import pytest
import torch

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"


@pytest.fixture(scope="session")
def kernel_device() -> torch.device:
    """Where the kernels run: the first CUDA device, or the CPU under the interpreter."""
    return torch.device("cuda:0" if torch.cuda.is_available() else "cpu")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what needs a GPU where there is none; it runs when the same command runs on a machine with one."""
    if torch.cuda.is_available():
        return
    skip = pytest.mark.skip(reason="needs a CUDA device; run the same command on a machine that has one")
    for item in items:
        if item.get_closest_marker("gpu"):
            item.add_marker(skip)
