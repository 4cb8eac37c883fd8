"""Owns the slow, obvious answer to what a JSON body holds, by the standard library. Knows no decoder of the service."""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from service.spec import INTEGER_RANGE, ScalarSpec, TensorSpec

TOO_LARGE = 10**40


class Refused(Exception):
    """The body must be refused."""


def expected_fields(body: bytes, fields: Sequence[TensorSpec | ScalarSpec]) -> dict[str, NDArray[Any] | int]:
    """What a decoder must answer. Refused if it must refuse."""
    members = _members(body)
    names = [name for name, _ in members]
    if len(set(names)) < len(names) or not set(names) <= {field.name for field in fields}:
        raise Refused
    values = dict(members)
    answer: dict[str, NDArray[Any] | int] = {}
    for field in fields:
        required = isinstance(field, TensorSpec) and field.required
        if field.name not in values and required:
            raise Refused
        value = values.get(field.name)
        if value is None and not required:
            continue
        shape = _shape(value)
        cells = _cells(value)
        lowest, highest = INTEGER_RANGE[field.dtype]
        if not all(type(cell) is int and lowest <= cell <= highest for cell in cells):
            raise Refused
        if isinstance(field, ScalarSpec):
            if shape != ():
                raise Refused
            answer[field.name] = cells[0]
        else:
            if shape == (0,) and field.rank == 2:
                shape = (0, 0)
            answer[field.name] = np.array(cells, field.dtype).reshape(shape)
    return answer


def _members(body: bytes) -> list[tuple[str, Any]]:
    try:
        members = json.loads(
            body.decode("utf-8"),
            object_pairs_hook=tuple,
            parse_constant=_refuse,
            parse_int=lambda text: int(text) if len(text) < 40 else TOO_LARGE,
        )
    except (ValueError, RecursionError):
        raise Refused from None
    if not isinstance(members, tuple):
        raise Refused
    return list(members)


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
