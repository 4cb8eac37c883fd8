"""Owns the decoding of a JSON body to the arrays and integers of an operation's fields. Knows no HTTP and no device."""

from collections.abc import Sequence

import numpy as np

from service.errors import refusal
from service.spec import INTEGER_RANGE, ScalarSpec, TensorSpec
from service.wire.int_array import PIECE_BYTES, IntArray, decode_int_array, does_not_fit
from service.wire.int_text import LONGEST_INTEGER_BYTES
from service.wire.json_members import Span, require_member_end, split_members
from service.wire.json_token import byte_at, read_value
from service.wire.small_body import SMALL_BODY_BYTES, decode_small_body


def decode_json_body(body: bytes, fields: Sequence[TensorSpec | ScalarSpec]) -> dict[str, IntArray | int]:
    """The fields that ``body`` gives, by name: an array of the field's dtype and the text's rank, or an integer.

    Optional fields that are absent or null are left out, defaults are not filled in. Refused, in this order: a body
    that is no JSON object or has a name twice or one that is not in ``fields``; a required field that is missing;
    then, field by field in the order of ``fields``, the first fault in reading order. Text that is not JSON is refused
    wherever it is first noticed.

    >>> fields = [TensorSpec("lens", ("bs",), "int64", ""), ScalarSpec("n", "int64", "")]
    >>> decode_json_body(b'{"n": 7, "lens": [1, 2]}', fields)
    {'lens': array([1, 2]), 'n': 7}
    """
    if len(body) <= SMALL_BODY_BYTES:
        decoded = decode_small_body(body, fields)
        if decoded is not None:
            return decoded
    return decode_any_body(body, fields)


def decode_any_body(
    body: bytes, fields: Sequence[TensorSpec | ScalarSpec], piece_bytes: int = PIECE_BYTES
) -> dict[str, IntArray | int]:
    """What ``decode_json_body`` returns, for a body of any length: this function is its definition."""
    members = split_members(body, [field.name for field in fields])
    if not members.break_off:
        _require_fields(members.spans, fields)
    decoded: dict[str, IntArray | int] = {}
    for field in fields:
        span = members.spans.get(field.name)
        if span is None:
            continue
        if isinstance(field, TensorSpec) and byte_at(body, span.start) == b"[":
            value, stop = decode_int_array(body, span, field, piece_bytes)
            decoded[field.name] = value
        else:
            integer, stop = _decode_integer(body, span, field)
            if integer is not None:
                decoded[field.name] = np.array(integer, field.dtype) if isinstance(field, TensorSpec) else integer
        require_member_end(body, stop, span)
    if members.break_off:
        raise members.break_off
    return decoded


def _require_fields(spans: dict[str, Span], fields: Sequence[TensorSpec | ScalarSpec]) -> None:
    for field in fields:
        if isinstance(field, TensorSpec) and field.required and field.name not in spans:
            raise refusal("missing-field", name=field.name)


def _decode_integer(body: bytes, span: Span, field: TensorSpec | ScalarSpec) -> tuple[int | None, int]:
    """The integer in ``span``, None for a null that means absent, and the position after it."""
    token = read_value(body, span.start)
    if token.kind == "null" and not (isinstance(field, TensorSpec) and field.required):
        return None, token.stop
    if token.kind != "integer":
        raise refusal("not-an-integer", place=field.name, kind=token.kind)
    lowest, highest = INTEGER_RANGE[field.dtype]
    # Python refuses to convert thousands of digits, and none of them would fit.
    if token.stop - token.start <= LONGEST_INTEGER_BYTES:
        value = int(body[token.start : token.stop])
        if lowest <= value <= highest:
            return value, token.stop
    raise does_not_fit(body, token, field.name, field.dtype)
