"""Owns the quick decoding of small bodies. It only accepts: whatever is odd is left to the decoder of any body."""

import struct
from collections.abc import Sequence
from itertools import chain
from typing import cast

import numpy as np
import orjson

from service.spec import INTEGER_RANGE, Dtype, ScalarSpec, TensorSpec
from service.wire.int_array import IntArray

SMALL_BODY_BYTES = 256 * 1024
"""Bodies up to here are parsed in one go, which holds the interpreter lock for a millisecond or two."""

_INTEGERS_AND_PUNCTUATION = b'0123456789-,[]{}": \t\n\r'
_FORMATS: dict[Dtype, str] = {"int32": "i", "int64": "q"}


def decode_small_body(body: bytes, fields: Sequence[TensorSpec | ScalarSpec]) -> dict[str, IntArray | int] | None:
    """The fields that ``body`` gives, or None when only a closer look can tell what it holds."""
    try:
        members = orjson.loads(body)
        return _decode_members(body, members, fields) if type(members) is dict else None
    except (ValueError, TypeError, struct.error):
        return None


def _decode_members(
    body: bytes, members: dict[str, object], fields: Sequence[TensorSpec | ScalarSpec]
) -> dict[str, IntArray | int] | None:
    # The parser keeps the last of two equal names and an array takes true for 1. Neither can be where nothing but
    # each name, and null for a whole field, is left of the text without its integers and punctuation.
    names = "".join(name if value is not None else name + "null" for name, value in members.items())
    if body.translate(None, _INTEGERS_AND_PUNCTUATION) != names.encode():
        return None
    given = {field.name: field for field in fields if field.name in members}
    if len(given) < len(members) or any(_is_required(field) and field.name not in given for field in fields):
        return None
    return {
        name: _integers(members[name], field)
        for name, field in given.items()
        if members[name] is not None or _is_required(field)
    }


def _is_required(field: TensorSpec | ScalarSpec) -> bool:
    return isinstance(field, TensorSpec) and field.required


def _integers(value: object, field: TensorSpec | ScalarSpec) -> IntArray | int:
    """The field's value; ValueError, TypeError or struct.error when it is not plainly that."""
    if isinstance(field, TensorSpec) and type(value) is list:
        return _int_array(value, field)
    lowest, highest = INTEGER_RANGE[field.dtype]
    if isinstance(field, TensorSpec) or type(value) is not int or not lowest <= value <= highest:
        raise ValueError("not plainly an integer")
    return value


def _int_array(value: list[object], field: TensorSpec) -> IntArray:
    """A vector, or a table of equally long rows."""
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
