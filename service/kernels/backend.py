"""Owns the choice of backend: the Triton kernels or the host backend."""

import importlib.util
import platform
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Literal

import torch

from service.errors import refusal
from service.kernels import compile_events, host_backend
from service.kernels.operands import EntryBuffers, OffsetBuffers, PlanOperands, ScatterOperands

BackendName = Literal["triton", "host"]


@dataclass(frozen=True, slots=True)
class Backend:
    """One implementation of the kernels, and the name that answers carry."""

    name: BackendName
    launch_plan: Callable[[PlanOperands, OffsetBuffers, EntryBuffers | None], None]
    launch_scatter: Callable[[ScatterOperands], None]


@dataclass(frozen=True, slots=True)
class Target:
    """Where plans are computed: the device and the backend."""

    device: torch.device
    backend: Backend

    @property
    def device_description(self) -> str:
        """The hardware behind the device, as people call it."""
        if self.device.type == "cuda":
            return torch.cuda.get_device_name(self.device)
        return platform.processor() or platform.machine()


def triton_is_installed() -> bool:
    """Whether Triton can be imported; it has no wheel for macOS and Windows."""
    return importlib.util.find_spec("triton") is not None


@cache
def backend_named(name: BackendName) -> Backend:
    """The backend of that name. Triton is imported, and its compilations are counted, only when it is asked for."""
    if name == "host":
        return Backend("host", host_backend.launch_plan, host_backend.launch_scatter)
    from service.kernels import triton_backend

    compile_events.watch()
    return Backend("triton", triton_backend.launch_plan, triton_backend.launch_scatter)


def backend_for(device: torch.device) -> Backend:
    """The backend for tensors on ``device``: the kernels on CUDA, the host backend on the CPU.

    Raises ``InvalidInput`` for any other device.
    """
    if device.type not in ("cpu", "cuda"):
        raise refusal("unsupported-device", have=device)
    return backend_named("triton" if device.type == "cuda" else "host")
