"""Owns the reading of one JSON token: white space, names, strings, numbers, literals. Knows no field.

Long tokens are read in steps, so that the interpreter lock can change hands between two of them.
"""

import json
import re
from dataclasses import dataclass
from typing import Literal

import numpy as np

from service.errors import Refusal, refusal

Kind = Literal["array", "string", "integer", "float", "bool", "null", "object"]

STEP_BYTES = 64 * 1024
NAME_LIMIT_BYTES = 1024
_SHORT_RUN = 32

_SPACE = b" \t\n\r"
_NOT_SPACE = re.compile(rb"[^ \t\n\r]")
_NOT_DIGIT = re.compile(rb"[^0-9]")
_CUT_STRING = re.compile(rb'("(?:[^\\]++|\\(?:[^u]|u.{4}))*+).*', re.DOTALL)
_BAD_IN_STRING = re.compile(rb"[\x00-\x1f\\](?!(?<=\\)u[0-9a-fA-F]{4})")
_SHORT_ESCAPES = tuple(b"\\" + letter for letter in (b"\\", b'"', b"/", b"b", b"f", b"n", b"r", b"t"))
_LITERAL = re.compile(rb"true|false|null")
_NUMBER_HEAD = re.compile(rb"-?(?:0|[1-9])")
_EXPONENT_HEAD = re.compile(rb"[eE][+-]?")
_NOT_A_NUMBER = re.compile(rb"-?(?:NaN|Infinity)")
_OPAQUE: dict[bytes, Kind] = {b"[": "array", b"{": "object", b'"': "string"}
_AFTER_VALUE = (b"", b" ", b"\t", b"\n", b"\r", b",", b"]", b"}")


@dataclass(frozen=True, slots=True)
class Token:
    """One value: its kind and its bytes ``[start, stop)``. Of an array, object or string only the first."""

    kind: Kind
    start: int
    stop: int


def malformed(reason: str, position: int) -> Refusal:
    """The refusal of a body that is not JSON: a fixed phrase and the byte it is about, counted from 0."""
    return refusal("malformed-json", reason=reason, position=position)


def skip_space(body: bytes, position: int) -> int:
    """The position of the first byte at or after ``position`` that is no white space; the length if none is."""
    return _run_stop(_NOT_SPACE, body, position)


def skip_space_backwards(body: bytes, stop: int) -> int:
    """The position after the last byte before ``stop`` that is no white space; 0 if none is."""
    start = max(0, stop - STEP_BYTES)
    while start and not body[start:stop].rstrip(_SPACE):
        start, stop = max(0, start - STEP_BYTES), start
    return start + len(body[start:stop].rstrip(_SPACE))


def byte_at(body: bytes, position: int) -> bytes:
    """The byte at ``position``, empty at the end of the body."""
    return body[position : position + 1]


def read_name(body: bytes, position: int) -> tuple[str, int]:
    """The name that the string at ``position`` spells, and the position after the string.

    Of a string above ``NAME_LIMIT_BYTES``, which is nobody's name, only the beginning is spelt.
    """
    if byte_at(body, position) != b'"':
        at_end = position >= len(body)
        raise malformed("it ends inside the object" if at_end else "a name is missing", position)
    stop = string_stop(body, position)
    if stop - position > NAME_LIMIT_BYTES:
        text = _CUT_STRING.sub(rb'\1"', body[position : position + NAME_LIMIT_BYTES]).decode(errors="replace")
    else:
        try:
            text = body[position:stop].decode()
        except UnicodeDecodeError as fault:
            raise malformed("a string is not UTF-8", position + fault.start) from None
    name: str = json.loads(text)
    return name, stop


def string_stop(body: bytes, position: int) -> int:
    """The position after the string that begins at ``position``."""
    position += 1
    while step := body[position : position + STEP_BYTES]:
        # Left to right, a pair of backslashes is always an escape; once they are gone, so is every other backslash.
        for escape in _SHORT_ESCAPES if b"\\" in step else ():
            step = step.replace(escape, b"__")
        quote = step.find(b'"')
        bad = _BAD_IN_STRING.search(step, 0, len(step) if quote < 0 else quote)
        if not bad:
            if quote >= 0:
                return position + quote + 1
            position += len(step)
        elif bad.start() > 0:
            position += bad.start()  # what is bad may only have been cut by the end of the step
        else:
            escape_fault = bad.group() == b"\\"
            raise malformed(
                "a string has a bad escape" if escape_fault else "a string has a control character", position
            )
    raise malformed("it ends inside a string", position)


def read_value(body: bytes, position: int) -> Token:
    """The token of the value at ``position``. Refused when no JSON value is there."""
    first = byte_at(body, position)
    opaque = _OPAQUE.get(first)
    if opaque:
        return Token(opaque, position, position + 1)
    literal = _LITERAL.match(body, position)
    if literal:
        kind: Kind = "null" if first == b"n" else "bool"
        token = Token(kind, position, literal.end())
    else:
        token = _read_number(body, position)
    if byte_at(body, token.stop) not in _AFTER_VALUE:
        raise malformed("a number or a literal is misspelt", token.stop)
    return token


def _read_number(body: bytes, position: int) -> Token:
    head = _NUMBER_HEAD.match(body, position)
    if not head:
        raise malformed(_why_no_value(body, position), position)
    zero = body[head.end() - 1] == ord("0")
    stop = head.end() if zero else _digits_run_stop(body, head.end())
    kind: Kind = "integer"
    if byte_at(body, stop) == b".":
        kind, stop = "float", _digits_stop(body, stop + 1)
    exponent = _EXPONENT_HEAD.match(body, stop)
    if exponent:
        kind, stop = "float", _digits_stop(body, exponent.end())
    return Token(kind, position, stop)


def _why_no_value(body: bytes, position: int) -> str:
    if position >= len(body):
        return "it ends where a value belongs"
    if _NOT_A_NUMBER.match(body, position):
        return "NaN and Infinity are not JSON"
    return "a value is missing" if byte_at(body, position) in _AFTER_VALUE else "a value is misspelt"


def _digits_stop(body: bytes, position: int) -> int:
    stop = _digits_run_stop(body, position)
    if stop == position:
        raise malformed("a number lacks a digit", position)
    return stop


def _digits_run_stop(body: bytes, position: int) -> int:
    """The position after the digits from ``position`` on. A long run, which is at fault anyhow, takes no long time."""
    found = _NOT_DIGIT.search(body, position, position + _SHORT_RUN)
    while found is None and position < len(body):
        step = np.frombuffer(body, np.uint8, min(STEP_BYTES, len(body) - position), position)
        others = step - np.uint8(ord("0")) > 9  # wraps below "0"
        if others.any():
            return position + int(others.argmax())
        position += len(step)
    return found.start() if found else position


def _run_stop(ending: re.Pattern[bytes], body: bytes, position: int) -> int:
    while position < len(body):
        found = ending.search(body, position, position + STEP_BYTES)
        if found:
            return found.start()
        position += STEP_BYTES
    return len(body)
