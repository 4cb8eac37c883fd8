"""What the C library is told about freed memory, and by whom it is not."""

import ctypes
import platform
from types import SimpleNamespace
from typing import Any

import pytest

from service.runtime.malloc import KEPT_BYTES, OPTIONS, keep_freed_blocks


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """What a C library is told that takes all but an arena option of 0."""
    calls: list[tuple[int, int]] = []

    def mallopt(option: int, value: int) -> int:
        calls.append((option, value))
        return int(value > 0)

    monkeypatch.setattr(ctypes, "CDLL", lambda _: SimpleNamespace(mallopt=mallopt))
    return calls


def test_every_option_is_told_once(told: list[tuple[int, int]]) -> None:
    assert keep_freed_blocks({"PATH": "/bin"})
    assert told == list(OPTIONS.items())
    assert KEPT_BYTES in OPTIONS.values()


def test_an_option_that_is_not_taken_is_told_of_and_the_others_are_tried(
    told: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(OPTIONS, next(iter(OPTIONS)), 0)
    assert not keep_freed_blocks({})
    assert len(told) == len(OPTIONS)


@pytest.mark.parametrize("name", ["MALLOC_ARENA_MAX", "MALLOC_TRIM_THRESHOLD_", "GLIBC_TUNABLES"])
def test_what_the_environment_says_is_left_alone(told: list[tuple[int, int]], name: str) -> None:
    assert not keep_freed_blocks({name: "1"})
    assert told == []


@pytest.mark.parametrize("fault", [AttributeError, OSError, TypeError])
def test_a_c_library_without_the_options_is_left_alone(monkeypatch: pytest.MonkeyPatch, fault: type[Exception]) -> None:
    def absent(_: Any) -> object:
        raise fault

    monkeypatch.setattr(ctypes, "CDLL", absent)
    assert not keep_freed_blocks({})


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="needs glibc; run it on a Linux that has it")
def test_glibc_takes_every_option() -> None:
    assert keep_freed_blocks({})
