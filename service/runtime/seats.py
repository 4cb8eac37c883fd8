"""Gives each server process of one service a number of its own, so that each can take a device of its own."""

import itertools
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

_VARIABLE = "_KV_PLAN_SEATS"
"""Where the supervisor tells its server processes which file their seats are in."""


@contextmanager
def seats_offered() -> Iterator[None]:
    """Let server processes that are started meanwhile take seats. Not on Windows: it has no Triton, so no devices."""
    if sys.platform == "win32":
        yield
        return
    with tempfile.NamedTemporaryFile(prefix="kv-plan-seats-") as file:
        os.environ[_VARIABLE] = file.name
        try:
            yield
        finally:
            del os.environ[_VARIABLE]


def take_seat() -> int:
    """The lowest number that no other server process of this service has; 0 where there are no others.

    It is held until the process ends, however it ends, so that its replacement finds it free.
    """
    path = os.environ.get(_VARIABLE)
    if path is None:
        return 0
    file = os.open(path, os.O_RDWR)  # never closed: that would give the seat back
    return next(seat for seat in itertools.count() if _is_taken(file, seat))


def _is_taken(file: int, seat: int) -> bool:
    """Whether this process has the seat from now on."""
    import fcntl  # not on Windows

    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, seat)
    except OSError:
        return False
    return True
