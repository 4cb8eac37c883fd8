"""What a result file says about the machine and the command."""

import os
import platform
import sys
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from service.bench import machine
from service.bench.machine import cpu_model, is_installed, provenance


def test_a_run_is_told_with_its_command_and_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["kv-plan", "bench", "--output", "a b"])
    origin = provenance()
    assert origin.command == "kv-plan bench --output 'a b'"
    assert {"python", "torch", "orjson", "uvicorn"} <= set(origin.versions)
    assert origin.hardware.usable_cores >= 1
    assert origin.began.endswith("+00:00")


@pytest.mark.parametrize(
    ("text", "model"),
    [("processor : 0\nmodel name\t: A: fast one\nmodel name : other\n", "A: fast one"), ("", None), (None, None)],
)
def test_the_processor_has_the_name_that_the_system_tells(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str | None, model: str | None
) -> None:
    if text is not None:
        (tmp_path / "cpuinfo").write_text(text, encoding="utf-8")
    monkeypatch.setattr(machine, "_CPU_FILE", tmp_path / "cpuinfo")
    assert cpu_model() == (model or platform.processor() or platform.machine())


@pytest.mark.parametrize("cores", [3, None])
def test_where_affinity_is_not_told_every_core_counts(monkeypatch: pytest.MonkeyPatch, cores: int | None) -> None:
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: cores)
    assert provenance().hardware.usable_cores == (cores or 1)


def test_a_package_that_is_absent_has_no_version(monkeypatch: pytest.MonkeyPatch) -> None:
    def version(package: str) -> str:
        raise PackageNotFoundError(package)

    monkeypatch.setattr(machine, "version", version)
    assert "uvloop" not in provenance().versions


def test_a_package_counts_as_installed_if_it_can_be_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    assert is_installed("torch")
    assert is_installed("typer")
    assert not is_installed("no_such_package")
    monkeypatch.setitem(sys.modules, "orjson", None)
    assert not is_installed("orjson")
