"""Owns the choice of backend: the Triton kernels or the host backend."""

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch

from service.kernels import host_backend
from service.kernels.operands import EntryBuffers, OffsetBuffers, PlanOperands, ScatterOperands

BackendName = Literal["triton", "host"]


@dataclass(frozen=True, slots=True)
class Backend:
    """One implementation of the kernels, and the name that answers carry."""

    name: BackendName
    launch_plan: Callable[[PlanOperands, OffsetBuffers, EntryBuffers | None], None]
    launch_scatter: Callable[[ScatterOperands], None]


def triton_is_installed() -> bool:
    """Whether Triton can be imported; it has no wheel for macOS and Windows."""
    return importlib.util.find_spec("triton") is not None


def backend_named(name: BackendName) -> Backend:
    """The backend of that name. Triton is imported only when it is asked for."""
    if name == "host":
        return Backend("host", host_backend.launch_plan, host_backend.launch_scatter)
    from service.kernels import triton_backend

    return Backend("triton", triton_backend.launch_plan, triton_backend.launch_scatter)


def backend_for(device: torch.device) -> Backend:
    """The backend for tensors on ``device``: the kernels on CUDA, the host backend on the CPU."""
    return backend_named("triton" if device.type == "cuda" else "host")
