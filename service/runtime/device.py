"""Owns the choice of device and backend at start, and what is told about them."""

import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version

import torch

from service.errors import refusal
from service.kernels.backend import Target, backend_named, triton_is_installed


class DeviceError(RuntimeError):
    """A configured device or backend that this machine does not have."""


def resolve_target(device: str, kernels: str, seat: int = 0) -> Target:
    """The device and backend that the settings ask for.

    ``device`` is auto, cpu, cuda or cuda:N; ``kernels`` is auto, triton or host. Server processes with different
    ``seat`` take different CUDA devices as long as there are any, unless the settings name one.
    Raises ``DeviceError`` when this machine cannot serve them.
    """
    resolved = _resolve_device(device, seat)
    if kernels == "auto":
        kernels = "triton" if resolved.type == "cuda" else "host"
    if kernels == "host":
        if resolved.type != "cpu":
            raise DeviceError(f"KV_PLAN_KERNELS=host needs KV_PLAN_DEVICE=cpu, not {resolved}")
        return Target(resolved, backend_named("host"))
    if not triton_is_installed():
        raise DeviceError("KV_PLAN_KERNELS=triton needs Triton, which is not installed here; use KV_PLAN_KERNELS=host")
    if resolved.type == "cpu" and os.environ.get("TRITON_INTERPRET") != "1":
        raise DeviceError("KV_PLAN_KERNELS=triton needs a CUDA device, or TRITON_INTERPRET=1 to interpret the kernels")
    return Target(resolved, backend_named("triton"))


def _resolve_device(device: str, seat: int) -> torch.device:
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if device == "auto":
        device = "cuda" if count else "cpu"
    if device == "cuda":
        device = f"cuda:{seat % max(count, 1)}"
    resolved = torch.device(device)
    if resolved.type == "cuda" and resolved.index >= count:
        raise DeviceError(f"KV_PLAN_DEVICE={device}: this machine has {count} usable CUDA devices")
    return resolved


@contextmanager
def refusing_out_of_memory(device: str) -> Iterator[None]:
    """Make an allocation that fails, on the device or on the host, the refusal that says so."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        refuse_out_of_memory(error, device)
        raise


def refuse_out_of_memory(error: Exception, device: str) -> None:
    """Raise the refusal that says so if ``error`` is an allocation that failed."""
    # On the CPU, and for pinned memory, torch raises a bare RuntimeError.
    known = isinstance(error, (MemoryError, torch.OutOfMemoryError))
    if known or "can't allocate memory" in str(error) or "CUDA error: out of memory" in str(error):
        raise refusal("out-of-memory", device=device) from error


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that matter for an answer; absent ones are left out."""
    found = {"python": platform.python_version()}
    for package in ("torch", "triton", "numpy", "fastapi", "pydantic", "uvicorn"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
