"""Owns the slow, obvious answer to what a JSON body holds, by the standard library. Knows no decoder of the service."""

import json
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from service.spec import INTEGER_RANGE, FieldSpec, FlagSpec, ObjectSpec, ObjectsSpec, ScalarSpec, TensorSpec, TextSpec

TOO_LARGE = 10**40
NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,63}")


class Refused(Exception):
    """The body must be refused."""


def expected_fields(body: bytes, fields: Sequence[FieldSpec]) -> dict[str, Any]:
    """What a decoder must answer. Refused if it must refuse."""
    return _object(_parse(body), fields)


def _object(members: Any, fields: Sequence[FieldSpec]) -> dict[str, Any]:
    values = _distinct(members)
    if not set(values) <= {field.name for field in fields}:
        raise Refused
    answer: dict[str, Any] = {}
    for field in fields:
        required = isinstance(field, ObjectsSpec) or (isinstance(field, TensorSpec | ObjectSpec) and field.required)
        if isinstance(field, TensorSpec) and field.required_unless in values:
            required = False
        if field.name not in values and required:
            raise Refused
        value = values.get(field.name)
        if value is not None or required:
            answer[field.name] = _value(value, field)
    return answer


def _value(value: Any, field: FieldSpec) -> Any:
    if isinstance(field, ObjectSpec):
        return _object(value, field.fields)
    if isinstance(field, ObjectsSpec):
        objects = _distinct(value)
        if not 1 <= len(objects) <= field.most or not all(NAME.fullmatch(name) for name in objects):
            raise Refused
        return {name: _object(members, field.fields) for name, members in objects.items()}
    if isinstance(field, FlagSpec):
        if value is not True and value is not False:
            raise Refused
        return value
    return _text(value) if isinstance(field, TextSpec) else _integers(value, field)


def _text(value: Any) -> str:
    try:
        if isinstance(value, str) and len(value.encode()) <= 64:
            return value
    except UnicodeEncodeError:
        pass
    raise Refused


def _integers(value: Any, field: TensorSpec | ScalarSpec) -> NDArray[Any] | int:
    shape = _shape(value)
    cells = _cells(value)
    lowest, highest = INTEGER_RANGE[field.dtype]
    if not all(type(cell) is int and lowest <= cell <= highest for cell in cells):
        raise Refused
    if isinstance(field, ScalarSpec):
        if shape != ():
            raise Refused
        return int(cells[0])
    if shape == (0,) and field.rank == 2:
        shape = (0, 0)
    return np.array(cells, field.dtype).reshape(shape)


def _distinct(members: Any) -> dict[str, Any]:
    """The members of an object by name. Refused when it is none, or has a name twice."""
    if not isinstance(members, tuple):
        raise Refused
    if len({name for name, _ in members}) < len(members):
        raise Refused
    return dict(members)


def _parse(body: bytes) -> Any:
    """The value of a text, an object being a tuple of its members."""
    try:
        return json.loads(
            body.decode("utf-8"),
            object_pairs_hook=tuple,
            parse_constant=_refuse,
            parse_int=lambda text: int(text) if len(text) < 40 else TOO_LARGE,
        )
    except (ValueError, RecursionError):
        raise Refused from None


def _refuse(_constant: str) -> None:
    raise Refused


def _shape(value: Any) -> tuple[int, ...]:
    """The shape of nested lists. Refused when they are no rectangle or too deep."""
    if not isinstance(value, list):
        return ()
    shapes = {_shape(element) for element in value}
    if len(shapes) > 1:
        raise Refused
    inner = shapes.pop() if shapes else ()
    if len(inner) >= 8:
        raise Refused
    return (len(value), *inner)


def _cells(value: Any) -> list[Any]:
    if isinstance(value, list):
        return [cell for element in value for cell in _cells(element)]
    return [value]
