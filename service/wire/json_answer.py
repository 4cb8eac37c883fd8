"""Owns the encoding of an answer's fields to JSON. Knows no HTTP and no device."""

from collections.abc import Iterator, Mapping
from typing import TypeVar

import numpy as np
import orjson

T = TypeVar("T")
SLICE_ELEMENTS = 64 * 1024
"""Elements encoded in one go: between two slices the interpreter lock can change hands."""


def encode_json(fields: Mapping[str, object], slice_elements: int = SLICE_ELEMENTS) -> bytes:
    """One JSON object, its members in the order of ``fields``: 1-D arrays, integers, booleans, strings.

    >>> encode_json({"verify_offsets": np.array([0, 2]), "verify_enable": True})
    b'{"verify_offsets":[0,2],"verify_enable":true}'
    """
    if sum(len(value) for value in fields.values() if isinstance(value, np.ndarray)) <= slice_elements:
        return orjson.dumps(fields, option=orjson.OPT_SERIALIZE_NUMPY)
    return b"".join(json_pieces(fields, bytes, slice_elements))


def json_pieces(
    fields: Mapping[str, object], apart: type[T], slice_elements: int = SLICE_ELEMENTS
) -> Iterator[bytes | T]:
    """The same in pieces, with every value of the type ``apart`` as it is in its place.

    >>> list(json_pieces({"a": 1, "b": "later"}, str))
    [b'{"a":', b'1', b',"b":', 'later', b'}']
    """
    separator = b"{"
    for name, value in fields.items():
        yield separator + orjson.dumps(name) + b":"
        separator = b","
        if isinstance(value, apart):
            yield value
        elif isinstance(value, np.ndarray) and len(value) > slice_elements:
            before = b"["
            for start in range(0, len(value), slice_elements):
                elements = orjson.dumps(value[start : start + slice_elements], option=orjson.OPT_SERIALIZE_NUMPY)
                yield before
                yield elements[1:-1]
                before = b","
            yield b"]"
        else:
            yield orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY)
    yield b"}"
