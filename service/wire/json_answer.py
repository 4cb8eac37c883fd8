"""Owns the encoding of an answer's fields to JSON. Knows no HTTP and no device."""

from collections.abc import Mapping

import numpy as np
import orjson

SLICE_ELEMENTS = 64 * 1024
"""Elements encoded in one go: between two slices the interpreter lock can change hands."""


def encode_json(fields: Mapping[str, object], slice_elements: int = SLICE_ELEMENTS) -> bytes:
    """One JSON object, its members in the order of ``fields``: 1-D arrays, integers, booleans, strings.

    >>> encode_json({"verify_offsets": np.array([0, 2]), "verify_enable": True})
    b'{"verify_offsets":[0,2],"verify_enable":true}'
    """
    if sum(len(value) for value in fields.values() if isinstance(value, np.ndarray)) <= slice_elements:
        return orjson.dumps(fields, option=orjson.OPT_SERIALIZE_NUMPY)
    parts: list[bytes] = []
    for name, value in fields.items():
        parts.append(b"," if parts else b"{")
        parts.append(orjson.dumps(name) + b":")
        if isinstance(value, np.ndarray) and len(value) > slice_elements:
            parts.append(b"[")
            for start in range(0, len(value), slice_elements):
                elements = orjson.dumps(value[start : start + slice_elements], option=orjson.OPT_SERIALIZE_NUMPY)
                parts += (elements[1:-1], b",")
            parts[-1] = b"]"
        else:
            parts.append(orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY))
    return b"".join(parts) + b"}"
