"""Tells what a measurement ran on: hardware, versions, command line."""

import importlib.util
import os
import platform
import shlex
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

from service.runtime.device import versions

_CPU_FILE = Path("/proc/cpuinfo")
_MORE_PACKAGES = ("kv-plan", "starlette", "orjson", "httptools", "uvloop")


@dataclass(frozen=True, slots=True)
class Hardware:
    """The machine: its processor, how many cores of it this process may use, its GPUs, its operating system."""

    cpu: str
    usable_cores: int
    gpus: tuple[str, ...]
    system: str


@dataclass(frozen=True, slots=True)
class Provenance:
    """When a measurement began, with which command, on which machine, with which versions."""

    began: str
    command: str
    hardware: Hardware
    versions: dict[str, str]


def provenance() -> Provenance:
    """That of this run."""
    gpus = tuple(torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count()))
    return Provenance(
        began=datetime.now(UTC).isoformat(timespec="seconds"),
        command=shlex.join(sys.argv),
        hardware=Hardware(cpu_model(), _usable_cores(), gpus, platform.platform()),
        versions=versions() | _more_versions(),
    )


def cpu_model() -> str:
    """The processor as its maker calls it, or as the system does where that is not told."""
    if _CPU_FILE.exists():
        for line in _CPU_FILE.read_text(encoding="utf-8").splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                return value.strip()
    return platform.processor() or platform.machine()


def is_installed(package: str) -> bool:
    """Whether a package can be imported."""
    if package in sys.modules:
        return sys.modules[package] is not None
    return importlib.util.find_spec(package) is not None


def has_cuda() -> bool:
    """Whether there is a CUDA device."""
    return torch.cuda.is_available()


def _usable_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _more_versions() -> dict[str, str]:
    found = {}
    for package in _MORE_PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
