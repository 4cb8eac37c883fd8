"""Owns the decoding of a JSON body to the values of an operation's fields. Knows no HTTP and no device."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from service.errors import refusal, within
from service.spec import INTEGER_RANGE, FieldSpec, FlagSpec, ObjectsSpec, ScalarSpec, TensorSpec, TextSpec
from service.wire.field_rules import LONGEST_TEXT_BYTES, Value, is_required, named_object
from service.wire.int_array import decode_int_array, does_not_fit
from service.wire.int_text import LONGEST_INTEGER_BYTES
from service.wire.json_members import FindQuote, Members, Span, find_quote, require_member_end, split_members
from service.wire.json_token import Token, byte_at, read_name, read_value
from service.wire.small_body import SMALL_BODY_BYTES, decode_small_body

ArrayReader: TypeAlias = Callable[[bytes, Span, TensorSpec], tuple[Any, int]]
"""Reads the array that begins at ``span.start``: what it returns, or raises, is what ``decode_int_array`` does. The
array may be of another kind than numpy's.
"""


class BodyReader(NamedTuple):
    """How the long parts of a body are read: its arrays, and the way from one quote to the next."""

    read_array: ArrayReader = decode_int_array
    find_quote: FindQuote = find_quote


STRICT = BodyReader()
"""What defines how any body is read."""


def decode_json_body(body: bytes, fields: Sequence[FieldSpec], reader: BodyReader = STRICT) -> dict[str, Value]:
    """The fields that ``body`` gives, by name: an array of the field's dtype and the text's rank, an integer, a text,
    a boolean, or the fields of an object.

    Optional fields that are absent or null are left out, defaults are not filled in. Objects under chosen names keep
    the order of the body, all else has that of ``fields``. Refused, in this order: a body that is no JSON object; where
    an object, at any depth, has a name twice or one that is not in its fields or may not be chosen, or too many chosen
    ones; then, field by field in the order of ``fields``, the first fault in reading order, an object's first being a
    required field that is missing. Text that is not JSON is refused wherever it is first noticed.

    >>> fields = [TensorSpec("lens", ("bs",), "int64", ""), ScalarSpec("n", "int64", "")]
    >>> decode_json_body(b'{"n": 7, "lens": [1, 2]}', fields)
    {'lens': array([1, 2]), 'n': 7}
    >>> decode_json_body(b'{"groups": {"swa": {"n": 7}}}', [ObjectsSpec("groups", (fields[1],), "", most=2)])
    {'groups': {'swa': {'n': 7}}}
    """
    if len(body) <= SMALL_BODY_BYTES:
        decoded = decode_small_body(body, fields)
        if decoded is not None:
            return decoded
    return decode_any_body(body, fields, reader)


def decode_any_body(body: bytes, fields: Sequence[FieldSpec], reader: BodyReader = STRICT) -> dict[str, Value]:
    """What ``decode_json_body`` returns, for a body of any length: this function is its definition."""
    members, break_off = split_members(body, fields, reader.find_quote)
    decoded = _Decoder(body, reader.read_array).decode_members(members)
    if break_off:
        try:
            raise break_off
        finally:
            del break_off  # or it would hold this frame, and so the body, until a garbage collection
    return decoded


@dataclass(frozen=True, slots=True)
class _Decoder:
    body: bytes
    read_array: ArrayReader

    def decode_members(self, members: Members) -> dict[str, Value]:
        """The values of an object's fields."""
        fields = _fields_of(members)
        if members.closed:
            _require_fields(members, fields)
        decoded: dict[str, Value] = {}
        for field in fields:
            member = members.values.get(field.name)
            if isinstance(member, Members):
                with within(field.name):
                    decoded[field.name] = self.decode_members(member)
            elif member:
                value, stop = self._decode_value(member, field, may_be_null=not is_required(field, members.values))
                if value is not None:
                    decoded[field.name] = value
                require_member_end(self.body, stop, member)
        return decoded

    def _decode_value(self, span: Span, field: FieldSpec, *, may_be_null: bool) -> tuple[Value | None, int]:
        """The value in ``span``, None for a null that means absent, and the position after it."""
        if isinstance(field, TensorSpec) and byte_at(self.body, span.start) == b"[":
            return self.read_array(self.body, span, field)
        token = read_value(self.body, span.start)
        if token.kind == "null" and may_be_null:
            return None, token.stop
        if isinstance(field, TensorSpec | ScalarSpec):
            integer = self._integer(token, field)
            return np.array(integer, field.dtype) if isinstance(field, TensorSpec) else integer, token.stop
        if isinstance(field, TextSpec):
            return self._text(token, field.name)
        if not isinstance(field, FlagSpec):
            raise refusal("not-an-object", place=field.name, kind=token.kind)
        if token.kind != "bool":
            raise refusal("not-a-boolean", place=field.name, kind=token.kind)
        return byte_at(self.body, token.start) == b"t", token.stop

    def _integer(self, token: Token, field: TensorSpec | ScalarSpec) -> int:
        if token.kind != "integer":
            raise refusal("not-an-integer", place=field.name, kind=token.kind)
        lowest, highest = INTEGER_RANGE[field.dtype]
        # Python refuses to convert thousands of digits, and none of them would fit.
        if token.stop - token.start <= LONGEST_INTEGER_BYTES:
            value = int(self.body[token.start : token.stop])
            if lowest <= value <= highest:
                return value
        raise does_not_fit(self.body, token, field.name, field.dtype)

    def _text(self, token: Token, place: str) -> tuple[str, int]:
        """The text and the position after it. Half of a surrogate pair is no text."""
        if token.kind != "string":
            raise refusal("not-a-string", place=place, kind=token.kind)
        text, stop = read_name(self.body, token.start)
        if len(text.encode(errors="surrogatepass")) > LONGEST_TEXT_BYTES or not _is_unicode(text):
            raise refusal("text-too-long", place=place, limit=LONGEST_TEXT_BYTES)
        return text, stop


def _is_unicode(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)


def _fields_of(members: Members) -> Sequence[FieldSpec]:
    inside = members.inside
    return [named_object(name, inside) for name in members.values] if isinstance(inside, ObjectsSpec) else inside


def _require_fields(members: Members, fields: Sequence[FieldSpec]) -> None:
    if isinstance(members.inside, ObjectsSpec) and not members.values:
        raise refusal("no-objects", name=members.inside.name)
    for field in fields:
        if is_required(field, members.values) and field.name not in members.values:
            raise refusal("missing-field", name=field.name)
