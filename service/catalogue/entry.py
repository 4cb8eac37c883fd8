"""Owns the shape of a catalogue entry."""

from dataclasses import dataclass
from typing import Literal

Kind = Literal["value", "dtype", "serving"]


@dataclass(frozen=True, slots=True)
class Example:
    """A request that meets the error and the same request mended, both as a reader would type them."""

    before: str
    after: str


@dataclass(frozen=True, slots=True)
class ErrorEntry:
    """One error: how it reads, what it means and how to get rid of it.

    ``kind`` says what is raised: ``value`` a ValueError, ``dtype`` a TypeError (both also in process),
    ``serving`` an error that only the service knows.
    """

    code: str
    title: str
    template: str
    meaning: str
    trigger: str
    situations: tuple[str, ...]
    remedies: tuple[str, ...]
    example: Example
    related: tuple[str, ...] = ()
    kind: Kind = "value"
