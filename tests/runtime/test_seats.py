"""Seats: every server process has one of its own, and what ends gives its seat back, however it ends."""

import subprocess
import sys
from pathlib import Path

import pytest

from service.runtime.seats import seats_offered, take_seat

HOLD_A_SEAT = "from service.runtime.seats import take_seat; print(take_seat(), flush=True); input()"
ROOT = Path(__file__).parent.parent.parent


class Holder:
    """A process that takes a seat and holds it."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", HOLD_A_SEAT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
        )
        assert self._process.stdout is not None
        self.seat = int(self._process.stdout.readline())

    def kill(self) -> None:
        """End it without a chance to tidy up."""
        self._process.kill()
        self._process.communicate()

    def kill_and_tell(self) -> int:
        """The seat that it had."""
        self.kill()
        return self.seat


@pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX locks; run it on Linux or macOS")
def test_a_process_takes_the_lowest_free_seat_and_a_killed_one_leaves_its_own() -> None:
    holders: list[Holder] = []
    try:
        with seats_offered():
            holders += [Holder() for _ in range(3)]
            assert [holder.seat for holder in holders] == [0, 1, 2]
            holders[1].kill()
            holders += [Holder(), Holder()]
            assert [holder.seat for holder in holders[3:]] == [1, 3]
    finally:
        for holder in holders:
            holder.kill()


@pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX locks; run it on Linux or macOS")
def test_a_process_keeps_its_seat_and_leaves_those_of_others() -> None:
    with seats_offered():
        other = Holder()
        try:
            assert (other.seat, take_seat()) == (0, 1)
            assert Holder().kill_and_tell() == 2
        finally:
            other.kill()


def test_where_there_are_no_locks_there_are_no_seats_to_share(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    with seats_offered():
        assert take_seat() == 0


def test_without_a_supervisor_there_is_one_seat() -> None:
    with seats_offered():
        pass
    assert take_seat() == take_seat() == 0
