"""Owns what the decoders of a body agree on: what a field's value is, which fields must be there, which names may be.

Knows no JSON.
"""

import re
from collections.abc import Container
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from service.spec import OBJECT_NAME_PATTERN, FieldSpec, ObjectSpec, ObjectsSpec, TensorSpec

IntArray = NDArray[np.int32] | NDArray[np.int64]

Value: TypeAlias = IntArray | int | bool | str | dict[str, "Value"]
"""What a field's value becomes."""

LONGEST_TEXT_BYTES = 64
"""Bytes of the longest text that a field holds, in UTF-8."""


def is_required(field: FieldSpec, given: Container[str]) -> bool:
    """Whether an object that has the names ``given`` must have ``field`` among them, and no null for it."""
    return field.required and not (isinstance(field, TensorSpec) and field.required_unless in given)


def is_object_name(name: str) -> bool:
    """Whether ``name`` may be chosen for one of the objects of an ``ObjectsSpec``."""
    return re.fullmatch(OBJECT_NAME_PATTERN, name) is not None


def named_object(name: str, objects: ObjectsSpec) -> ObjectSpec:
    """One of the ``objects``, under the name that was chosen for it."""
    return ObjectSpec(name, objects.fields, objects.sentence, required=True)
