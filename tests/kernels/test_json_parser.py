"""The kernels take the text of plain arrays, whatever its tiles, and leave everything else."""

import json

import numpy as np
import pytest
import torch

from tests.kernels.harness import Guarded

pytestmark = pytest.mark.triton

INT32, INT64 = torch.int32, torch.int64
MIXED = "0,-0,7,-7,10,99,-100,2147483647,-2147483648,123456789,1234567890"
WIDE = f"{2**63 - 1},{-(2**63)},1000000000000000000,999999999999999999,-9,0"


def words_of(body: bytes, device: torch.device) -> torch.Tensor:
    """Bytes as the parser takes them, filled up to whole words."""
    return (
        torch.frombuffer(bytearray(body.ljust(-(-len(body) // 4) * 4)), dtype=torch.uint8).to(device).view(torch.int32)
    )


def parse(text: bytes | str, dtype: torch.dtype, device: torch.device, tile_bytes: int = 64) -> list[object] | None:
    """The array that the kernels read, None if they leave it. They must not write beyond it.

    What stands before and behind the text must not matter, nor where it begins.
    """
    from service.kernels import json_parser

    text = text.encode() if isinstance(text, str) else text
    is_table = text[1:2] == b"["
    before = b"[1, [2],"[: 1 + len(text) % 8]
    words = words_of(before + text + b"9]7", device)
    start, stop = len(before), len(before) + len(text)
    survey = json_parser.survey_array(words, start, stop, is_table=is_table, tile_bytes=tile_bytes)
    if survey is None:
        return None
    guarded = Guarded(device)
    integers = guarded.vector(survey.numbers, dtype)
    taken = json_parser.read_integers(survey, integers)
    guarded.assert_guards_survive()
    found: list[object] = integers.reshape(survey.shape).tolist()
    return found if taken else None


@pytest.mark.parametrize("tile_bytes", [16, 4096])
@pytest.mark.parametrize(
    ("text", "dtype"),
    [
        ("[5]", INT32),
        (f"[{MIXED}]", INT32),
        (f"[{WIDE}, {MIXED}]", INT64),
        ("[[3]]", INT64),
        ("[[1,2,3],[-4,5,6]]", INT32),
        ("[[1, 2], [3, 4], [5, 6]]", INT32),
        ("[[1],[2],[30000],[4],[5],[6],[7],[8]]", INT64),
    ],
)
def test_a_plain_array_is_read(text: str, dtype: torch.dtype, tile_bytes: int, kernel_device: torch.device) -> None:
    assert parse(text, dtype, kernel_device, tile_bytes) == json.loads(text)


@pytest.mark.parametrize("shift", range(1, 12))
def test_nothing_depends_on_where_a_text_begins_and_a_tile_ends(shift: int, kernel_device: torch.device) -> None:
    text = f"[[{'1' * min(shift, 10)}, {-(10 ** max(shift - 10, 0))}], [-2000000000, -7]]"
    assert parse(text, INT32, kernel_device, 16) == json.loads(text)


def test_a_table_of_many_tiles_is_read(kernel_device: torch.device) -> None:
    table = np.random.default_rng(5).integers(-(2**31), 2**31, (40, 37))
    text = json.dumps(table.tolist())
    assert parse(text, INT32, kernel_device, 4096) == table.tolist()


@pytest.mark.parametrize(
    "text",
    [
        *("[]", "[[]]", "[[],[]]", "[[1],[]]", "[[],[1]]", "[", "]", "1", "-", "[[", "]]", "[-]", "[1", "1]"),
        *("[1,]", "[,1]", "[1,,2]", "[ 1]", "[1 ]", "[1 ,2]", "[1,  2]", "[1,\n2]", "[1\t]", "[1 2]", "[1, ]"),
        *("[01]", "[-01]", "[00]", "[1, 00]", "[--1]", "[1-2]", "[1-]", "[+1]", "[1.0]", "[1e3]", "[- 1]"),
        *("[NaN]", "[null]", '["7"]', "[1]]", "[[1]", "[[1]]]", "[[1],2]", "[1,[2]]", "[1[2]]", "[[1][2]]", "[[1]2]"),
        *(
            "[[[1]]]",
            "[[1],[[2]]]",
            "[[1], ]",
            "[[1],]",
            "[[1] ,[2]]",
            "[[1]], [2]",
            "[1],[2]",
            "[1]}",
            "[1\0]",
            "[\u0661]",
        ),
        *("[[1,2],[3]]", "[[1],[2,3]]", "[[1,2],[3],[4,5,6]]", "[[1,2,3],[4,5],[6]]"),
        *(b"[\xb1]", b"[1\xac2]", b"[1]\xdd", b"\xdb1]", b"[\x111]", b"\xef\xbb\xbf[1]"),
    ],
)
def test_whatever_is_not_plain_is_left(text: bytes | str, kernel_device: torch.device) -> None:
    assert parse(text, INT64, kernel_device) is None


@pytest.mark.parametrize(
    ("number", "dtype"),
    [
        *((str(number), INT32) for number in (2**31, -(2**31) - 1, 9999999999, 10**10, 2**32, -(10**10))),
        *((str(number), INT64) for number in (2**63, -(2**63) - 1, 10**19 - 1, 10**19, 2**64, 2**64 + 1, -(10**40))),
    ],
)
def test_a_number_that_does_not_fit_is_left(number: str, dtype: torch.dtype, kernel_device: torch.device) -> None:
    assert parse(f"[3, {number}]", dtype, kernel_device) is None
    assert parse(f"[[3, {number}]]", dtype, kernel_device) is None


def test_a_text_that_is_one_number_or_nothing_but_punctuation_is_left(kernel_device: torch.device) -> None:
    for text in ("[" + "7" * 5000 + "]", "[" * 5000, "]" * 5000, "," * 5000, " " * 5000, "[" + "-" * 5000 + "]"):
        assert parse(text, INT64, kernel_device, 4096) is None


def test_an_empty_text_and_one_beyond_32_bits_are_left(kernel_device: torch.device) -> None:
    from service.kernels.json_parser import survey_array

    words = words_of(b"[1]", kernel_device)
    assert survey_array(words, 1, 1, is_table=False, tile_bytes=64) is None
    assert survey_array(words, 0, 2**30 + 1, is_table=False, tile_bytes=64) is None


@pytest.mark.parametrize("faulty", [False, True])
def test_tiles_are_summed_up_in_any_number_of_steps(faulty: bool, kernel_device: torch.device) -> None:
    from service.kernels._json_parse_kernel import _sum_kernel

    counts = torch.tensor([2, 0, 5, 2**30, 2**30, 2**30, 1, 0, -1 if faulty else 4], dtype=INT32, device=kernel_device)
    first_rows = torch.tensor([2**31 - 1, 2**31 - 1, 3, 1, 2, *[0] * 4], dtype=INT32, device=kernel_device)
    guarded = Guarded(kernel_device)
    bases, summary = guarded.vector(9), guarded.vector(4)
    _sum_kernel[(1,)](counts, first_rows, bases, summary, 9, BLOCK=4)
    guarded.assert_guards_survive()
    assert bases.tolist() == [0, *np.cumsum(counts.tolist())[:-1].tolist()]
    assert summary.tolist() == [int(faulty), sum(counts.tolist()), 5, 0]


@pytest.mark.gpu
def test_after_the_warm_up_no_text_compiles_a_kernel(kernel_device: torch.device) -> None:
    from service.kernels import compile_events, json_parser

    json_parser.warm_up(kernel_device, 128)
    before = compile_events.compiled_kernels()
    for text in ("[1]", "[[1,2]]", "[" + ",".join("16" * 16 for _ in range(16)) + "]", f"[{WIDE}]"):
        for dtype in (INT32, INT64):
            parse(text, dtype, kernel_device, 128)
    assert compile_events.compiled_kernels() == before


@pytest.mark.parametrize("tile_bytes", [16, 4096])
@pytest.mark.parametrize("most", [0, 1, 5, 64])
@pytest.mark.parametrize("body", [b"a", b'"', b'"' * 7, b'{"a":[1,2],"b":"\\""}', b"x" * 33 + b'"', b"\xa2\x22\x23!"])
def test_quotes_are_found_as_far_as_there_is_room(
    body: bytes, most: int, tile_bytes: int, kernel_device: torch.device
) -> None:
    from service.kernels import json_parser

    # What fills up the last word is not of the body.
    words = words_of(body, kernel_device)
    words.view(torch.uint8)[len(body) :] = ord('"')
    count, *places = json_parser.find_quotes(words, len(body), tile_bytes, most).tolist()
    expected = [position for position, byte in enumerate(body) if byte == ord('"')]
    assert count == len(expected)
    if count <= most:
        assert sorted(places[:count]) == expected
    else:
        assert set(places) <= set(expected)
