"""Owns the objects of a body: which names each has and where the value of each name begins. Reads no value.

A value that is no object of fields holds no quote, but those around a text, so it extends to the quote that begins
the next name, less the comma and the braces before it: as many objects end there. A quote that does not begin a name
lies inside a value that is at fault, or in text that is not JSON: after a bounded look for the next name the body
breaks off, and what was seen before is judged first. Objects are only read where a field is one, so the depth is
bounded by the fields.
"""

import difflib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from service.errors import Refusal, refusal, within
from service.spec import FieldSpec, ObjectSpec, ObjectsSpec
from service.wire.field_rules import is_object_name
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


FindQuote: TypeAlias = Callable[[bytes, int], int]
"""Finds what ``find_quote`` does."""

Inside = Sequence[FieldSpec] | ObjectsSpec
"""What an object holds: fields, or objects under names that the client chooses."""


@dataclass(frozen=True, slots=True)
class Span:
    """Where a value is: its first byte, and the quote of the next name or the end of the body.

    ``closes`` is how many objects end between the value and there.
    """

    start: int
    stop: int
    closes: int


@dataclass(slots=True)
class Members:
    """The values by name, in the body's order, of an object that holds ``inside``.

    ``closed`` is false for an object that the text breaks off in.
    """

    inside: Inside
    values: dict[str, "Span | Members"] = field(default_factory=dict)
    closed: bool = False


def split_members(body: bytes, fields: Sequence[FieldSpec], find_quote: FindQuote) -> tuple[Members, Refusal | None]:
    """The members of the object that ``body`` is, and the fault at which the text breaks off, if it does.

    Refused: another kind of body; in reading order, at any depth, a name that an object has twice or that is not one of
    its fields, a name that may not be chosen, and more chosen names than there may be.
    """
    members = Members(fields)
    reader = _Reader(body, _object_start(body), find_quote)
    try:
        reader.read_object(members)
    except Refusal as fault:
        if fault.code != "malformed-json":
            raise
        return members, fault
    return members, None


def require_member_end(body: bytes, position: int, span: Span) -> None:
    """Refuse anything between a value that ends at ``position`` and the next name, or the end of the body."""
    position = skip_space(body, position)
    closed = 0
    while closed < span.closes and byte_at(body, position) == b"}":
        position = skip_space(body, position + 1)
        closed += 1
    follows = byte_at(body, position)
    if span.stop < len(body):
        if follows != b",":
            raise malformed("a comma is missing", position)
        position = skip_space(body, position + 1)
        if position != span.stop:
            raise malformed("a name is missing", position)
    elif closed == span.closes:
        _require_body_end(body, position)
    elif follows == b",":
        raise malformed("a name is missing", skip_space(body, position + 1))
    else:
        raise _no_end_of_object(body, position)


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


@dataclass(slots=True)
class _Reader:
    """Reads objects one in another, from the first one's opening brace on.

    ``depth`` objects are open. Of these, ``closing`` end before ``position``, where the next name begins.
    """

    body: bytes
    position: int
    find_quote: FindQuote
    depth: int = 0
    closing: int = 0

    def read_object(self, members: Members) -> None:
        """Read an object from the byte after its brace to the name that follows it, or the end of the body."""
        self.depth += 1
        self.position = skip_space(self.body, self.position)
        if byte_at(self.body, self.position) == b"}":
            self._pass_braces()
        while not self.closing:
            self._read_member(members)
        self.closing -= 1
        self.depth -= 1
        members.closed = True

    def _read_member(self, members: Members) -> None:
        name, position = read_name(self.body, self.position)
        position = skip_space(self.body, position)
        if byte_at(self.body, position) != b":":
            raise malformed("a colon is missing", position)
        start = skip_space(self.body, position + 1)
        inside = _inside_of(name, members.inside)
        if inside is None or byte_at(self.body, start) != b"{":
            span = self._span(start)
            _judge_name(name, members)
            members.values[name] = span
            self._pass_value(span)
        else:
            _judge_name(name, members)
            members.values[name] = inner = Members(inside)
            self.position = start + 1
            with within(name):
                self.read_object(inner)

    def _span(self, start: int) -> Span:
        stop = _next_quote(self.body, start, self.find_quote)
        if stop == len(self.body):
            return Span(start, stop, self.depth)
        most = self.depth - 1
        if most == 0:
            return Span(start, stop, 0)
        before = skip_space_backwards(self.body, stop)
        if byte_at(self.body, before - 1) == b",":
            before -= 1
        return Span(start, stop, _count_braces(self.body, _empty_object_stop(self.body, start), before, most))

    def _pass_value(self, span: Span) -> None:
        if span.stop == len(self.body):
            # Refuse a body that was cut, before its missing names are held against it.
            if _count_braces(self.body, 0, span.stop, self.depth) < self.depth:
                raise malformed("it ends inside the object", span.stop)
        elif byte_at(self.body, skip_space_backwards(self.body, span.stop) - 1) != b",":
            raise malformed("a comma is missing", span.stop)
        self.position, self.closing = span.stop, span.closes

    def _pass_braces(self) -> None:
        """Pass the brace at which an empty object ends, and those of the objects that end with it."""
        while self.closing < self.depth and byte_at(self.body, self.position) == b"}":
            self.position = skip_space(self.body, self.position + 1)
            self.closing += 1
        if self.closing == self.depth:
            _require_body_end(self.body, self.position)
        elif byte_at(self.body, self.position) == b",":
            self.position = skip_space(self.body, self.position + 1)
        else:
            raise _no_end_of_object(self.body, self.position)


def _inside_of(name: str, inside: Inside) -> Inside | None:
    """What an object called ``name`` holds; None when there should be none of that name."""
    if isinstance(inside, ObjectsSpec):
        return inside.fields
    for known in inside:
        if known.name == name and isinstance(known, ObjectSpec | ObjectsSpec):
            return known if isinstance(known, ObjectsSpec) else known.fields
    return None


def _judge_name(name: str, members: Members) -> None:
    inside = members.inside
    if isinstance(inside, ObjectsSpec) and not is_object_name(name):
        raise refusal("object-name-invalid", name=inside.name, have=json.dumps(name[:_SHOWN_CHARACTERS]))
    if name in members.values:
        raise refusal("duplicate-field", name=name)
    if isinstance(inside, ObjectsSpec):
        if len(members.values) == inside.most:
            raise refusal("too-many-objects", name=inside.name, limit=inside.most)
    elif all(name != known.name for known in inside):
        raise _unknown_field(name, [known.name for known in inside])


def _count_braces(body: bytes, start: int, stop: int, most: int) -> int:
    """How many closing braces, with only white space between them, end ``body[start:stop]``, counted up to ``most``."""
    count = 0
    while count < most:
        stop = skip_space_backwards(body, stop)
        if stop <= start or byte_at(body, stop - 1) != b"}":
            break
        stop -= 1
        count += 1
    return count


def _empty_object_stop(body: bytes, start: int) -> int:
    """The position after the empty object at ``start``, whose brace ends no other; ``start`` if there is none."""
    if byte_at(body, start) != b"{":
        return start
    stop = skip_space(body, start + 1)
    return stop + 1 if byte_at(body, stop) == b"}" else start


def _next_quote(body: bytes, start: int, find_quote: FindQuote) -> int:
    """The quote that begins the next name, the length of the body if there is none.

    A string that no colon follows is an element of the value at ``start``, which is at fault then. So that the fields
    behind it are judged too, some such strings are passed over.
    """
    position = string_stop(body, start) if byte_at(body, start) == b'"' else start
    quote = find_quote(body, position)
    for _ in range(_PASSED_STRINGS if byte_at(body, start) == b"[" else 0):
        try:
            stop = string_stop(body, quote)
        except Refusal:
            break  # the text ends in it, or it is no string: the reader of names says so
        if byte_at(body, skip_space(body, stop)) == b":":
            break
        quote = find_quote(body, stop)
    return quote


def find_quote(body: bytes, position: int) -> int:
    """The position of the first quote at or after ``position``, the length of the body if there is none."""
    while position < len(body):
        quote = body.find(b'"', position, position + _SEARCH_BYTES)
        if quote >= 0:
            return quote
        position += _SEARCH_BYTES
    return len(body)


def _no_end_of_object(body: bytes, position: int) -> Refusal:
    at_end = position == len(body)
    return malformed("it ends inside the object" if at_end else "a comma or a closing brace is missing", position)


def _require_body_end(body: bytes, position: int) -> None:
    position = skip_space(body, position)
    if position < len(body):
        raise malformed("text follows the object", position)


def _unknown_field(name: str, names: Sequence[str]) -> Refusal:
    shown = name[:_SHOWN_CHARACTERS]
    close = difflib.get_close_matches(shown, names, n=1)
    hint = f'; did you mean "{close[0]}"?' if close else ""
    return refusal("unknown-field", name=json.dumps(shown), hint=hint)
