"""Owns the quick decoding of small bodies. It only accepts: whatever is odd is left to the decoder of any body.

Two things are lost once a parser has been over the text: of two equal names it keeps the last, and an array takes true
for 1. So the text is held against the words that the answer accounts for: each name, each text, and true, false or
null where a field may be that. Take from both the digits, the white space and the punctuation of JSON, and compare
what is left:

- Without a backslash in it, which is left when it is there, every string of the text is what the parser made of it.
  So each word is a piece of the text, and no two words are the same piece: the words can only be too few.
- Of what there may be besides the words, something is left: at least one letter of a name, which is that of a field or
  begins with a letter; all of true, false and null; the point or the exponent of a float. A name that is there twice is
  such a rest, and all of an object that the parser dropped hangs on one.
- Hence equal lengths mean that the words are all there is, save integers and strings of digits and punctuation. A
  string where none belongs fails by its type.
"""

import struct
from collections.abc import Sequence
from itertools import chain
from typing import cast

import numpy as np
import orjson

from service.spec import INTEGER_RANGE, Dtype, FieldSpec, FlagSpec, ObjectSpec, ObjectsSpec, ScalarSpec, TensorSpec
from service.wire.field_rules import LONGEST_TEXT_BYTES, IntArray, Value, is_object_name, is_required, named_object

SMALL_BODY_BYTES = 256 * 1024
"""Bodies up to here are parsed in one go, which holds the interpreter lock for a millisecond or two."""

_INTEGERS_AND_PUNCTUATION = b'0123456789-,[]{}": \t\n\r'
_FORMATS: dict[Dtype, str] = {"int32": "i", "int64": "q"}


def decode_small_body(body: bytes, fields: Sequence[FieldSpec]) -> dict[str, Value] | None:
    """The fields that ``body`` gives, or None when only a closer look can tell what it holds."""
    words: list[str] = []
    try:
        decoded = _members(orjson.loads(body), fields, words)
    except (ValueError, TypeError, struct.error):
        return None
    left = body.translate(None, _INTEGERS_AND_PUNCTUATION)
    accounted_for = "".join(words).encode().translate(None, _INTEGERS_AND_PUNCTUATION)
    return decoded if len(left) == len(accounted_for) and b"\\" not in left else None


def _members(members: object, fields: Sequence[FieldSpec], words: list[str]) -> dict[str, Value]:
    """The values of an object's fields; ValueError, TypeError or struct.error when it is not plainly that.

    Adds the words of the object to ``words``.
    """
    if type(members) is not dict:
        raise TypeError("not plainly an object")
    words += members
    decoded: dict[str, Value] = {}
    known = 0
    for field in fields:
        if field.name in members:
            known += 1
            value = members[field.name]
            if value is not None:
                decoded[field.name] = _value(value, field, words)
                continue
            words.append("null")
        if field.required and is_required(field, members):
            raise ValueError("a field is missing")
    if known < len(members):
        raise ValueError("a name is unknown")
    return decoded


def _value(value: object, field: FieldSpec, words: list[str]) -> Value:
    if isinstance(field, TensorSpec):
        return _int_array(value, field)
    if isinstance(field, ScalarSpec):
        lowest, highest = INTEGER_RANGE[field.dtype]
        if type(value) is int and lowest <= value <= highest:
            return value
        raise ValueError("not plainly an integer")
    if isinstance(field, ObjectSpec):
        return _members(value, field.fields, words)
    if isinstance(field, ObjectsSpec):
        return _objects(value, field, words)
    if isinstance(field, FlagSpec):
        if type(value) is not bool:
            raise TypeError("not plainly a boolean")
        words.append("true" if value else "false")
        return value
    if type(value) is not str or len(value.encode()) > LONGEST_TEXT_BYTES:
        raise ValueError("not plainly a text")
    words.append(value)
    return value


def _objects(value: object, field: ObjectsSpec, words: list[str]) -> dict[str, Value]:
    if type(value) is not dict or not 0 < len(value) <= field.most or not all(map(is_object_name, value)):
        raise ValueError("not plainly objects under names")
    return _members(value, [named_object(name, field) for name in value], words)


def _int_array(value: object, field: TensorSpec) -> IntArray:
    """A vector, or a table of equally long rows."""
    if type(value) is not list:
        raise TypeError("not plainly an array")
    shape: tuple[int, ...] = (len(value),)
    cells = value
    if value and type(value[0]) is list:
        rows = cast("list[list[object]]", value)
        if set(map(type, rows)) != {list} or len(set(map(len, rows))) != 1:
            raise ValueError("not a table")
        shape = (len(rows), len(rows[0]))
        cells = list(chain.from_iterable(rows))
    elif not value:
        shape = (0,) * field.rank
    decoded: IntArray = np.empty(shape, field.dtype)
    struct.pack_into(f"={len(cells)}{_FORMATS[field.dtype]}", decoded.data, 0, *cells)
    return decoded
