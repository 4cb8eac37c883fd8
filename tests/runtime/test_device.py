"""The device and backend that settings ask for, on machines with and without CUDA devices and Triton."""

import platform
from importlib.metadata import PackageNotFoundError

import pytest
import torch

from service.errors import Refusal
from service.kernels.backend import Target, backend_named
from service.runtime import device as device_module
from service.runtime.device import DeviceError, refusing_out_of_memory, resolve_target, versions


def _machine(
    monkeypatch: pytest.MonkeyPatch, *, cuda_devices: int = 0, triton: bool = True, interpret: bool = False
) -> None:
    """Make this machine look like another."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda_devices > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: cuda_devices)
    monkeypatch.setattr(device_module, "triton_is_installed", lambda: triton)
    monkeypatch.setenv("TRITON_INTERPRET", "1" if interpret else "0")


@pytest.mark.parametrize(
    ("cuda_devices", "device", "kernels", "answer"),
    [
        (0, "auto", "auto", ("cpu", "host")),
        (0, "cpu", "auto", ("cpu", "host")),
        (0, "cpu", "host", ("cpu", "host")),
        (2, "auto", "auto", ("cuda:0", "triton")),
        (2, "cuda", "auto", ("cuda:0", "triton")),
        (2, "cuda:1", "auto", ("cuda:1", "triton")),
        (2, "cuda:1", "triton", ("cuda:1", "triton")),
        (2, "cpu", "auto", ("cpu", "host")),
        (2, "cpu", "host", ("cpu", "host")),
    ],
)
def test_settings_choose_the_device_and_the_backend(
    monkeypatch: pytest.MonkeyPatch, cuda_devices: int, device: str, kernels: str, answer: tuple[str, str]
) -> None:
    _machine(monkeypatch, cuda_devices=cuda_devices)
    target = resolve_target(device, kernels)
    assert (str(target.device), target.backend.name) == answer


@pytest.mark.parametrize(
    ("cuda_devices", "device", "seat", "answer"),
    [
        (0, "auto", 3, "cpu"),
        (1, "auto", 3, "cuda:0"),
        (2, "auto", 1, "cuda:1"),
        (2, "auto", 2, "cuda:0"),
        (2, "cuda", 3, "cuda:1"),
        (2, "cuda:0", 1, "cuda:0"),
        (2, "cpu", 1, "cpu"),
    ],
)
def test_server_processes_share_the_devices_out_unless_one_is_named(
    monkeypatch: pytest.MonkeyPatch, cuda_devices: int, device: str, seat: int, answer: str
) -> None:
    _machine(monkeypatch, cuda_devices=cuda_devices)
    assert str(resolve_target(device, "auto", seat).device) == answer


@pytest.mark.parametrize(
    ("cuda_devices", "device", "kernels", "words"),
    [
        (0, "cuda", "auto", "KV_PLAN_DEVICE=cuda:0: this machine has 0 usable CUDA devices"),
        (2, "cuda:2", "auto", "KV_PLAN_DEVICE=cuda:2: this machine has 2 usable CUDA devices"),
        (2, "cuda:99", "host", "KV_PLAN_DEVICE=cuda:99: this machine has 2 usable CUDA devices"),
        (2, "cuda:1", "host", "KV_PLAN_KERNELS=host needs KV_PLAN_DEVICE=cpu, not cuda:1"),
        (2, "auto", "host", "KV_PLAN_KERNELS=host needs KV_PLAN_DEVICE=cpu, not cuda:0"),
        (0, "cpu", "triton", "KV_PLAN_KERNELS=triton needs a CUDA device, or TRITON_INTERPRET=1"),
    ],
)
def test_what_the_machine_lacks_is_named(
    monkeypatch: pytest.MonkeyPatch, cuda_devices: int, device: str, kernels: str, words: str
) -> None:
    _machine(monkeypatch, cuda_devices=cuda_devices)
    with pytest.raises(DeviceError) as caught:
        resolve_target(device, kernels)
    assert str(caught.value).startswith(words)


@pytest.mark.parametrize(("cuda_devices", "device", "kernels"), [(0, "cpu", "triton"), (1, "auto", "auto")])
def test_kernels_without_triton_are_refused(
    monkeypatch: pytest.MonkeyPatch, cuda_devices: int, device: str, kernels: str
) -> None:
    _machine(monkeypatch, cuda_devices=cuda_devices, triton=False, interpret=True)
    with pytest.raises(DeviceError, match="needs Triton, which is not installed here"):
        resolve_target(device, kernels)


def test_the_interpreter_runs_the_kernels_on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    _machine(monkeypatch, interpret=True)
    target = resolve_target("cpu", "triton")
    assert (str(target.device), target.backend.name) == ("cpu", "triton")


def test_the_hardware_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: f"the GPU at {device}")
    host = backend_named("host")
    assert Target(torch.device("cuda:1"), host).device_description == "the GPU at cuda:1"
    assert Target(torch.device("cpu"), host).device_description in (platform.processor(), platform.machine())


def test_versions_leave_out_what_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    everything = versions()

    def version_without_triton(package: str) -> str:
        if package == "triton":
            raise PackageNotFoundError(package)
        return everything[package]

    monkeypatch.setattr(device_module, "version", version_without_triton)
    assert versions() == {package: number for package, number in everything.items() if package != "triton"}
    assert everything["python"] == platform.python_version()
    assert everything["torch"] == torch.__version__


def test_other_failures_are_not_taken_for_a_lack_of_memory() -> None:
    with pytest.raises(RuntimeError, match="something else"), refusing_out_of_memory("cpu"):
        raise RuntimeError("something else")


def test_a_host_allocation_that_fails_for_real_is_a_lack_of_memory() -> None:
    with pytest.raises(Refusal) as caught, refusing_out_of_memory("cpu"):
        torch.empty(2**50)
    assert caught.value.code == "out-of-memory"
