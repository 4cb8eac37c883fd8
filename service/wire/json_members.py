"""Owns the outermost level of a body: which names it has and where the value of each begins. Reads no value.

A value whose fields are integers and arrays of integers holds no quote, so it extends to the quote that
begins the next name. A quote that does not begin a name lies inside a value that is at fault, or in text that is
not JSON: after a bounded look for the next name the body breaks off, and what was seen before is judged first.
"""

import difflib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from service.errors import Refusal, refusal
from service.wire.json_token import (
    byte_at,
    malformed,
    read_name,
    read_value,
    skip_space,
    skip_space_backwards,
    string_stop,
)

_SEARCH_BYTES = 4 * 1024 * 1024
_PASSED_STRINGS = 1024
_SHOWN_CHARACTERS = 64
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Span:
    """Where a value is: its first byte, and the quote of the next name or the end of the body."""

    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class Members:
    """The values by name, in the body's order, and the fault at which the text breaks off, if it does."""

    spans: dict[str, Span]
    break_off: Refusal | None


def split_members(body: bytes, names: Sequence[str]) -> Members:
    """The members of the object that ``body`` is.

    Refused: another kind of body, a name that is there twice, a name that is not one of ``names``.
    """
    first = _object_start(body)
    spans: dict[str, Span] = {}
    try:
        for name, span in _read_members(body, first):
            if name in spans:
                raise refusal("duplicate-field", name=name)
            if name not in names:
                raise _unknown_field(name, names)
            spans[name] = span
    except Refusal as fault:
        if fault.code != "malformed-json":
            raise
        return Members(spans, fault)
    return Members(spans, None)


def require_member_end(body: bytes, position: int, span: Span) -> None:
    """Refuse anything between a value that ends at ``position`` and the next name, or the end of the body."""
    position = skip_space(body, position)
    follows = byte_at(body, position)
    if span.stop < len(body):
        if follows != b",":
            raise malformed("a comma is missing", position)
        position = skip_space(body, position + 1)
        if position != span.stop:
            raise malformed("a name is missing", position)
    elif follows == b"}":
        _require_body_end(body, position + 1)
    elif follows == b",":
        raise malformed("a name is missing", skip_space(body, position + 1))
    else:
        at_end = position == len(body)
        raise malformed("it ends inside the object" if at_end else "a comma or a closing brace is missing", position)


def _object_start(body: bytes) -> int:
    if body.startswith(_BYTE_ORDER_MARK):
        raise malformed("it begins with a byte order mark", 0)
    start = skip_space(body, 0)
    if start == len(body):
        raise malformed("it is empty", start)
    token = read_value(body, start)
    if token.kind != "object":
        raise refusal("body-not-object", kind=token.kind)
    return token.stop


def _read_members(body: bytes, position: int) -> Iterator[tuple[str, Span]]:
    position = skip_space(body, position)
    if byte_at(body, position) == b"}":
        _require_body_end(body, position + 1)
        return
    while True:
        name, position = read_name(body, position)
        position = skip_space(body, position)
        if byte_at(body, position) != b":":
            raise malformed("a colon is missing", position)
        start = skip_space(body, position + 1)
        span = Span(start, _next_quote(body, start))
        yield name, span
        if span.stop == len(body):
            _require_brace_at_end(body)
            return
        before = skip_space_backwards(body, span.stop)
        if byte_at(body, before - 1) != b",":
            raise malformed("a comma is missing", span.stop)
        position = span.stop


def _next_quote(body: bytes, start: int) -> int:
    """The quote that begins the next name, the length of the body if there is none.

    A string that no colon follows is an element of the value at ``start``, which is at fault then. So that the fields
    behind it are judged too, some such strings are passed over.
    """
    position = string_stop(body, start) if byte_at(body, start) == b'"' else start
    quote = _find_quote(body, position)
    for _ in range(_PASSED_STRINGS if byte_at(body, start) == b"[" else 0):
        try:
            stop = string_stop(body, quote)
        except Refusal:
            break  # the text ends in it, or it is no string: the reader of names says so
        if byte_at(body, skip_space(body, stop)) == b":":
            break
        quote = _find_quote(body, stop)
    return quote


def _find_quote(body: bytes, position: int) -> int:
    while position < len(body):
        quote = body.find(b'"', position, position + _SEARCH_BYTES)
        if quote >= 0:
            return quote
        position += _SEARCH_BYTES
    return len(body)


def _require_brace_at_end(body: bytes) -> None:
    """Refuse a body that was cut, before its missing names are held against it."""
    if byte_at(body, skip_space_backwards(body, len(body)) - 1) != b"}":
        raise malformed("it ends inside the object", len(body))


def _require_body_end(body: bytes, position: int) -> None:
    position = skip_space(body, position)
    if position < len(body):
        raise malformed("text follows the object", position)


def _unknown_field(name: str, names: Sequence[str]) -> Refusal:
    shown = name[:_SHOWN_CHARACTERS]
    close = difflib.get_close_matches(shown, names, n=1)
    hint = f'; did you mean "{close[0]}"?' if close else ""
    return refusal("unknown-field", name=json.dumps(shown), hint=hint)
