"""Damages texts of arrays at random and holds what the quick loop takes against the strict reader.

``python -m tests.wire.fuzz_quick_arrays --texts 1000000 --seed 1``. A text that the loop takes must be one that the
strict reader accepts, with the same values, dtype, shape and end; what it leaves is right by construction.
"""

import argparse
import random
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from service.errors import Refusal
from service.spec import INTEGER_RANGE, TensorSpec
from service.wire.field_rules import IntArray
from service.wire.int_array import Beginning, decode_int_array
from service.wire.json_members import Span
from service.wire.quick_array import Loop, compile_loop, read_by_loop

SPECS = tuple(
    TensorSpec("req_to_token", axes, dtype, "") for axes in (("n",), ("rows", "cols")) for dtype in ("int32", "int64")
)
HEAD = b'{"req_to_token": '
_EDGES = [edge + near for limits in INTEGER_RANGE.values() for edge in limits for near in (-1, 0, 1)]
_POWERS = [10**exponent + near for exponent in range(21) for near in (-1, 0, 1)]
NUMBERS = [str(number).encode() for number in (*_EDGES, *_POWERS, 2**63 + 1, 2**64 - 1, 2**64, 2**64 + 7, 10**25)]
NUMBERS += [b"-" + number for number in NUMBERS]
ODD = rb'- -0 00 01 -01 --1 +1 1.0 1e3 0x1 NaN true null "7" {} 1/ 1: 1; 1] [1 00000000 -0-0 1- 1_0 .5 5.'.split()
ODD += [b"", b"1 2", b"1\x00", b"1\xb0", b"\xb1\xb2", b"\xba1", "\u0661".encode(), b"1\x0b", b"1" * 60, b"0" * 30]
SEPARATORS = [b",", b", ", b" ,", b",\n", b"\t,\r\n  ", b",,", b"", b" ", b", ,", b"\x0c,", b":", b"],[", b"][", b","]
SPACES = [b"", b"", b"", b" ", b"\n", b"\r\n\t", b"  " * 5, b"\x00", b"\x0b", b"\xa0"]
TAILS = [b"}", b"", b', "', b',"', b" }", b"]}", b"]", b"}}", b" " * 40, b", ", b"\x00" * 9]
ALPHABET = b"0123456789,-[] \n\r\t.eE+{}:\x00\x0b/;\x7f\x80\xb0\xff" + b'"' + b"0123456789" * 3 + b",[]-" * 3


@dataclass(frozen=True, slots=True)
class Case:
    """The array that begins at ``span.start`` of a body."""

    body: bytes
    span: Span
    spec: TensorSpec


def draw_cases(seed: int, count: int) -> Iterator[Case]:
    """So many texts, valid or nearly so, half of them damaged somewhere."""
    rng = random.Random(seed)  # noqa: S311
    for _ in range(count):
        spec = rng.choice(SPECS)
        text = _array(rng, spec, rng.choice((1, 2, 2, 3)) if rng.random() < 0.1 else rng.choice((1, 2)))
        for _ in range(rng.choice((0, 1, 1, 2, 5)) if rng.random() < 0.5 else 0):
            text = _damaged(rng, text)
        body = HEAD + text + rng.choice(TAILS)
        quote = body.find(b'"', len(HEAD))
        yield Case(body, Span(len(HEAD), len(body) if quote < 0 else quote, 0), spec)


def _array(rng: random.Random, spec: TensorSpec, depth: int) -> bytes:
    odd = rng.random() < 0.02
    length = rng.choice((0, 1, 1, 2, 3, 4, 9)) if depth > 1 or odd else rng.randrange(1, 12)
    separator = rng.choice(SEPARATORS[:5] if rng.random() < 0.97 else SEPARATORS)
    space = rng.choice(SPACES[:7] if rng.random() < 0.97 else SPACES)
    if depth > 1:
        rows = [_array(rng, spec, depth - 1) for _ in range(length)]
        if rows and rng.random() < 0.7:
            rows = [_row(rng, spec, rows[0].count(b",") + 1, separator) for _ in rows]
    else:
        rows = [_number(rng, spec) for _ in range(length)]
    return b"[" + space + separator.join(rows) + space + b"]"


def _row(rng: random.Random, spec: TensorSpec, length: int, separator: bytes) -> bytes:
    return b"[" + separator.join(_number(rng, spec) for _ in range(length)) + b"]"


def _number(rng: random.Random, spec: TensorSpec) -> bytes:
    if rng.random() < 0.01:
        return rng.choice(ODD)
    if rng.random() < 0.02:
        return rng.choice(NUMBERS)
    lowest, highest = INTEGER_RANGE[spec.dtype]
    value = rng.randint(lowest, highest) >> rng.randrange(64 if spec.dtype == "int64" else 32)
    return str(abs(value) if rng.random() < 0.5 and value > lowest else value).encode()


def _damaged(rng: random.Random, text: bytes) -> bytes:
    at = rng.randrange(1, len(text) + 1)  # nothing is an array that does not begin with its bracket
    what = rng.randrange(6)
    if what == 0:
        return text[:at] + text[at + 1 :]
    if what == 1:
        return text[:at] + bytes([rng.choice(ALPHABET)]) + text[at:]
    if what == 2:
        return text[:at] + bytes([rng.choice(ALPHABET)]) + text[at + 1 :]
    if what == 3:
        return text[:at] + rng.choice((*ODD, *NUMBERS, *SEPARATORS, *SPACES)) + text[at:]
    if what == 4:
        return text[:at] + text[at : at + rng.randrange(1, 9)] + text[at:]
    return text[:at]


def require_the_strict_answer(loop: Loop, case: Case) -> bool:
    """Whether the loop takes the text; AssertionError unless what it reads, and all that the strict reader makes of the
    rest, is what the strict reader makes of the whole.
    """
    read = read_by_loop(loop, case.body, case.span, case.spec)
    if read is not None:
        have = _strict_answer(case, read) if isinstance(read, Beginning) else read
        want = _strict_answer(case)
        if isinstance(want, str) or isinstance(have, str):
            assert have == want, case
        else:
            assert (have[0].dtype, have[0].shape, have[1]) == (want[0].dtype, want[0].shape, want[1]), case
            np.testing.assert_array_equal(have[0], want[0], repr(case))
    return isinstance(read, tuple)


def _strict_answer(case: Case, beginning: Beginning | None = None) -> tuple[IntArray, int] | str:
    """The array and its end, or the refusal."""
    try:
        return decode_int_array(case.body, case.span, case.spec, beginning=beginning)
    except Refusal as fault:
        return repr(fault)


def main() -> None:
    """Try as many texts as the command line says, and tell how many of them the loop took."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--texts", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    loop = compile_loop()
    taken = Counter(require_the_strict_answer(loop, case) for case in draw_cases(options.seed, options.texts))
    sys.stdout.write(f"{options.texts} texts, seed {options.seed}: {taken[True]} taken, {taken[False]} left\n")


if __name__ == "__main__":
    main()
