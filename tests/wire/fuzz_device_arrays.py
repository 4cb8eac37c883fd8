"""Damages texts of arrays at random and holds what is read on the device against the strict decoder.

``python -m tests.wire.fuzz_device_arrays --bodies 1000 --seed 1`` runs on the first CUDA device, or in Triton's
interpreter. A text that the device takes must be one that the strict decoder accepts, with the same values and end.
"""

import argparse
import multiprocessing
import os
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

import torch

from service.errors import Refusal
from service.runtime.device_arrays import DeviceArrayReader, ReaderSizes
from service.spec import INTEGER_RANGE, TensorSpec
from service.wire.int_array import decode_int_array
from service.wire.json_body import ArrayReader
from service.wire.json_members import Span, find_quote

SPECS = (
    TensorSpec("lens", ("n",), "int64", ""),
    TensorSpec("indices", ("n",), "int32", ""),
    TensorSpec("table", ("rows", "cols"), "int32", ""),
    TensorSpec("wide", ("rows", "cols"), "int64", ""),
)
TILES = (16, 64, 4096)
_EDGES = [
    *("0", "-0", "00", "01", "-01", "-", "--1", "+1", "1.0", "1e3", "1E3", "0x1", "1_0", "007", "10", "-10", "100"),
    *(str(edge + near) for limits in INTEGER_RANGE.values() for edge in limits for near in (-1, 0, 1)),
    *("9" * digits for digits in (9, 10, 11, 18, 19, 20, 21, 40)),
    *("-" + "9" * digits for digits in (9, 10, 18, 19, 20)),
    *("1" + "0" * zeros for zeros in (9, 10, 18, 19, 20, 64)),
    *("18446744073709551616", "18446744073709551615", "27670116110564327424", "4294967296", "-4294967295"),
    *("NaN", "Infinity", "true", "null", '"7"', "{}", "[]", "[1]", "[[1]]", ""),
]
_TOKENS = [
    *(token.encode() for token in _EDGES),
    *(b",", b", ", b",  ", b" ,", b",,", b"[", b"]", b"[[", b"]]", b"],[", b"], [", b"]  ,[", b"][", b"[]", b"[[]]"),
    *(b" ", b"  ", b"\n", b"\r\n", b"\t", b"\0", b"\x0b", b"\x1f", b"\xff", b"\x80", b"\xef\xbb\xbf", b"\xc2\xa0"),
    *(
        "\u0661".encode(),
        "\u2028".encode(),
        b"\\u0031",
        b"\\",
        b"'",
        b'"',
        b"}",
        b"{",
        b":",
        b"/",
        b".",
        b"e",
        b";",
        b"1,2",
    ),
]
_TAILS = [b"}", b"", b", ", b",", b" , ", b"}  ", b"]}", b"]", b"}}", b" ", b"}, ", b" " * 300, b"},\n  "]


@dataclass(frozen=True, slots=True)
class Case:
    """An array of ``spec`` that begins at ``span.start`` of a body."""

    body: bytes
    span: Span
    spec: TensorSpec


def draw_case(rng: random.Random) -> Case:
    """A text that is valid or nearly so, in most cases damaged, with something before and behind it."""
    spec = rng.choice(SPECS)
    text = _valid_text(rng, spec)
    for _ in range(rng.choice((0, 0, 1, 1, 2, 3))):
        text = _damaged(rng, text)
    before = b'{"x":' + b" " * rng.randrange(4)
    whole = before + text + rng.choice(_TAILS)
    stop = whole.find(b'"', len(before))
    stop = len(whole) if stop < 0 or rng.random() < 0.2 else stop
    return Case(whole + rng.choice((b"", b'"y": 1}')), Span(len(before), stop, 1), spec)


def compare(reader: DeviceArrayReader, case: Case, want: object) -> bool:
    """Whether the device took the array. AssertionError if the strict decoder answers something else."""
    try:
        with reader.reading(case.body) as body_reader:
            for position in (0, case.span.start, case.span.stop, len(case.body)):
                assert body_reader.find_quote(case.body, position) == find_quote(case.body, position), case
            array, stop = body_reader.read_array(case.body, case.span, case.spec)
    except _HandedOver:
        return False
    assert _told((array.cpu().numpy() if isinstance(array, torch.Tensor) else array, stop)) == want, case
    return True


def eager_reader(device: torch.device, tile: int) -> DeviceArrayReader:
    """A reader that lets the device try everything, and has nobody to hand over to."""
    sizes = ReaderSizes(0, 0, chunk=40, chunks=3, tile=tile)
    return DeviceArrayReader(device, _hand_over, {"table", "lens"}, sizes)


class _HandedOver(Exception):
    """The device left an array."""


def _hand_over(*_array: object) -> NoReturn:
    raise _HandedOver


def answer_of(read: ArrayReader, case: Case) -> object:
    """What a reader on the host returns, or the message of the refusal."""
    try:
        return _told(read(case.body, case.span, case.spec))
    except Refusal as fault:
        return str(fault)


def _told(found: tuple[Any, int]) -> object:
    """Dtype, shape, values and end."""
    array, stop = found
    return array.dtype, array.shape, array.tolist(), stop


def is_plain(case: Case) -> bool:
    """Whether the device must take a case that the strict decoder accepts: what ``json.dumps`` writes, not empty."""
    want, stop = decode_int_array(case.body, case.span, case.spec)
    text, behind = case.body[case.span.start : stop], case.body[stop : case.span.stop]
    if want.ndim != case.spec.rank or want.size == 0 or b"]" in behind or len(behind) >= 256:
        return False
    return not set(text.replace(b", ", b",")) - set(b"0123456789-,[]")


def run(bodies: int, seed: int, device: torch.device, tiles: tuple[int, ...] = TILES) -> int:
    """Compare so many cases. How many of them the device took."""
    rng = random.Random(seed)  # noqa: S311
    readers = [eager_reader(device, tile) for tile in tiles]
    taken = 0
    for _ in range(bodies):
        case = draw_case(rng)
        want = answer_of(decode_int_array, case)
        with DeviceArrayReader(device).reading(case.body) as on_host:
            assert answer_of(on_host.read_array, case) == want, case
        if compare(rng.choice(readers), case, want):
            taken += 1
        elif not isinstance(want, str):
            assert not is_plain(case), f"handed over for nothing: {case}"
    return taken


def _valid_text(rng: random.Random, spec: TensorSpec) -> bytes:
    rank = spec.rank if rng.random() < 0.95 else rng.randrange(1, 5)
    separator = rng.choice((b",", b", ")) if rng.random() < 0.8 else rng.choice((b" ,", b",\n", b",  ", b" , "))
    columns = rng.choice((0, 1, 1, 2, 3, 5, 8, 40)) if rank == spec.rank else rng.randrange(4)
    rows = rng.choice((1, 2, 2, 3, 7))
    wild = rng.random() < 0.1

    def number() -> bytes:
        if wild and rng.random() < 0.2:
            return rng.choice(_EDGES).encode()
        lowest, highest = INTEGER_RANGE[spec.dtype]
        bound = min(10 ** rng.randrange(1, 20), highest)
        return str(rng.choice((lowest, highest)) if rng.random() < 0.05 else rng.randint(-bound - 1, bound)).encode()

    def nested(depth: int) -> bytes:
        if depth == 1:
            length = columns if rng.random() < 0.97 else rng.randrange(5)
            return b"[" + separator.join(number() for _ in range(length)) + b"]"
        return b"[" + separator.join(nested(depth - 1) for _ in range(rows)) + b"]"

    return nested(rank)


def _damaged(rng: random.Random, text: bytes) -> bytes:
    start = rng.randrange(len(text) + 1)
    stop = min(len(text), start + rng.choice((0, 1, 1, 1, 2, 5, 20)))
    cut = text[start:stop]
    how: list[Callable[[], bytes]] = [
        lambda: bytes(byte ^ 1 << rng.randrange(8) for byte in cut),
        lambda: bytes(rng.randrange(256) for _ in cut),
        lambda: cut * 2,
        lambda: b"",
        lambda: rng.choice(_TOKENS),
        lambda: rng.choice(_TOKENS) + cut,
        lambda: cut[::-1],
    ]
    if rng.random() < 0.05:
        return text[:start]
    return text[:start] + rng.choice(how)() + text[stop:]


def main() -> None:
    """Run as many processes as asked for, each with a seed of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bodies", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=1)
    options = parser.parse_args()
    on_cuda = torch.cuda.device_count() > 0
    if not on_cuda:
        os.environ["TRITON_INTERPRET"] = "1"
    device = torch.device("cuda:0" if on_cuda else "cpu")
    shares = [(options.bodies // options.processes, options.seed + at, device) for at in range(options.processes)]
    with multiprocessing.get_context("spawn").Pool(options.processes) as pool:
        taken = sum(pool.starmap(run, shares))
    print(f"{sum(share[0] for share in shares)} bodies on {device}, {taken} taken, no difference")  # noqa: T201


if __name__ == "__main__":
    main()
