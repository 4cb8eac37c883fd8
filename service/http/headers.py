"""Owns how a header is read where one look is enough: from the raw pairs, without an object for them."""

from collections.abc import Iterable


def first_value(raw: Iterable[tuple[bytes, bytes]], name: bytes) -> str | None:
    """The first value of the header ``name``, which is lower case as ASGI has it; None without one.

    >>> first_value([(b"host", b"here"), (b"x-a", b"1"), (b"x-a", b"2")], b"x-a")
    '1'
    """
    for given, value in raw:
        if given == name:
            return value.decode("latin-1")
    return None
