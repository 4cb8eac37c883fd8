"""The quick reader of arrays: what it takes is what the strict reader reads, and it never stands in anybody's way."""

import json
import logging
import subprocess
import sys
import threading

import numpy as np
import pytest

from service.errors import Refusal
from service.spec import PLAN_INPUTS, TensorSpec
from service.wire import quick_array
from service.wire.int_array import Beginning, decode_int_array
from service.wire.json_body import BodyReader, decode_any_body
from service.wire.json_members import Span
from service.wire.quick_array import (
    COMPILED_FOR_BYTES,
    BackgroundLoop,
    Loop,
    QuickArrayReader,
    compile_loop,
    quick_array_reader,
    read_by_loop,
    wait_for_compiled_loop,
)
from tests.running import PATIENCE_SECONDS
from tests.wire.fuzz_quick_arrays import HEAD, SPECS, Case, draw_cases, require_the_strict_answer

pytest.importorskip("numba", reason="needs numba; install it where it has a wheel")
TABLE = TensorSpec("req_to_token", ("rows", "cols"), "int32", "")
WIDE = TensorSpec("lens", ("n",), "int64", "")
LARGE = b"[" + b"1," * (COMPILED_FOR_BYTES // 2) + b"2]"


def as_python(
    text: np.ndarray, words: np.ndarray, start: int, out: np.ndarray, *rest: int
) -> tuple[int, int, int, int]:
    """The loop as Python runs it."""
    from service.wire._array_loop import read_integers

    with np.errstate(over="ignore"):
        is_whole, count, columns, stop = read_integers(text, words, np.uint64(start), out, *map(np.uint64, rest))
    return int(is_whole), int(count), int(columns), int(stop)


@pytest.fixture(scope="session")
def compiled() -> Loop:
    """The compiled loop."""
    return compile_loop()


def case(text: bytes, spec: TensorSpec = TABLE) -> Case:
    """A body that ends with the array, the shortest that the loop sees."""
    body = HEAD + text
    return Case(body, Span(len(HEAD), len(body), 0), spec)


def require_alike(compiled: Loop, tried: Case) -> bool:
    """Whether the loop takes the text, compiled and as Python alike."""
    taken = require_the_strict_answer(compiled, tried)
    assert require_the_strict_answer(as_python, tried) is taken
    return taken


TAKEN = [
    "[0]", "[-0]", "[1,2]", "[[1]]", "[[1,2],[3,4]]", "[ 1 , 2 ]", "[\n[\t1,\r\n-2] ,\n[3, 4]\n]",
    "[12345678]", "[123456789,1]", "[2147483647,-2147483648]", f"[{'1,' * 500}1]", f"[{'[1],' * 500}[1]]",
]  # fmt: skip
LEFT = [
    "[]", "[[]]", "[[],[]]", "[[[1]]]", "[1,]", "[,1]", "[1", "[", "[[1]", "[[1],", "[[1],[", "[[1],]", "[[1],2]",
    "[1,[2]]", "[[1][2]]", "[[1],[2,3]]", "[[1,2],[3]]", "[1 2]", "[01]", "[-01]", "[00]", "[-]", "[- 1]", "[+1]",
    "[1.0]", "[1e0]", "[true]", '["1"]', "[null]", "[{}]", "[1}", "[2147483648]", "[-2147483649]", "[1\0]", "[1\x0b]",
    "[\x0b1]", "[/]", "[:]", "[1:2]", "[12345678901234567890]", "[123456789012345678901234567890]", "[1" + " " * 9,
]  # fmt: skip


@pytest.mark.parametrize("text", TAKEN)
def test_vectors_and_tables_are_taken(compiled: Loop, text: str) -> None:
    assert require_alike(compiled, case(text.encode()))


@pytest.mark.parametrize("text", LEFT)
def test_what_is_anything_else_is_left_to_the_strict_reader(compiled: Loop, text: str) -> None:
    assert not require_alike(compiled, case(text.encode()))
    assert not require_alike(compiled, case(text.encode() + b"}" * 9))


@pytest.mark.parametrize("digits", range(1, 22))
def test_numbers_of_every_length_are_taken_while_they_fit(compiled: Loop, digits: int) -> None:
    for text in ("9" * digits, "1" + "0" * (digits - 1), "-" + "9" * digits, str(int("1" * digits))):
        for spec in SPECS:
            bound = np.iinfo(spec.dtype)
            fits = bound.min <= int(text) <= bound.max
            assert require_alike(compiled, case(f"[7,{text},8]".encode(), spec)) is fits
            assert require_alike(compiled, case(f"[{text}".encode(), spec)) is False


@pytest.mark.parametrize("edge", [2**31 - 1, -(2**31), 2**63 - 1, -(2**63)])
@pytest.mark.parametrize("near", [-2, -1, 0, 1, 2])
def test_edges_of_the_dtype_are_kept_and_what_is_beyond_is_left(compiled: Loop, edge: int, near: int) -> None:
    for spec in SPECS:
        bound = np.iinfo(spec.dtype)
        assert require_alike(compiled, case(f"[[{edge + near}]]".encode(), spec)) is (
            bound.min <= edge + near <= bound.max
        )


@pytest.mark.parametrize("byte", range(256))
def test_every_byte_is_judged_wherever_it_stands(compiled: Loop, byte: int) -> None:
    for before, after in (
        ("[", "1]"),
        ("[1", "]"),
        ("[1", "2]"),
        ("[1,", "]"),
        ("[[1],", "[2]]"),
        ("[[1]", "]"),
        ("", ""),
    ):
        text = before.encode() + bytes([byte]) + after.encode()
        if text[:1] == b"[":
            require_alike(compiled, case(text + b"}"))


def test_random_texts_are_read_as_the_strict_reader_does_or_left(compiled: Loop) -> None:
    taken = [require_the_strict_answer(compiled, tried) for tried in draw_cases(seed=7, count=6000)]
    assert 2000 < sum(taken) < 4000
    for tried in draw_cases(seed=8, count=300):
        require_alike(compiled, tried)


def test_all_fields_of_a_body_are_read_as_the_strict_reader_does(compiled: Loop) -> None:
    drawn = np.random.default_rng(5)
    table = (drawn.integers(-(2**31), 2**31, (40, 50)) >> drawn.integers(0, 31, (40, 50))).tolist()
    batch = {"req_pool_indices": [2**62, -1], "prefix_lens": [0], "extend_seq_lens": [], "req_to_token": table}
    for separators in ((",", ":"), (", ", ": "), (" ,\n", ":\t")):
        body = json.dumps(batch, separators=separators).encode()
        want = decode_any_body(body, PLAN_INPUTS)
        have = decode_any_body(body, PLAN_INPUTS, BodyReader(QuickArrayReader(ready(compiled))))
        assert list(have) == list(want)
        for name, array in want.items():
            np.testing.assert_array_equal(np.asarray(have[name]), np.asarray(array), strict=True)


def test_more_commas_than_an_array_has_ask_for_no_memory(compiled: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(np, "empty", None)
    tried = case(b"[" + b"," * 1000 + b"]")
    assert read_by_loop(compiled, tried.body, tried.span, tried.spec) is None


def test_more_integers_than_there_is_room_for_are_not_written(compiled: Loop) -> None:
    body = case(b"[1,2,3]").body
    words = np.ndarray(len(body) - 7, np.uint64, body, strides=(1,))
    for loop in (compiled, as_python):
        out = np.full(6, 9, np.uint32)
        assert loop(np.frombuffer(body, np.uint8), words, len(HEAD), out[:4], 2, 2**63 - 1) == (0, 2, 0, len(HEAD) + 4)
        assert out.tolist() == [1, 0, 2, 0, 9, 9]


@pytest.mark.parametrize(
    "end", ["]", ",true]", ",]", " ", ",[1]]", "x", ",01]", ",2", ",3,4.5]", ",9999999999]", "],[1]]"]
)
@pytest.mark.parametrize("table", [False, True])
def test_what_has_been_read_before_a_fault_is_not_read_again(compiled: Loop, table: bool, end: str) -> None:
    good = [[1, 2], [3, 4], [5, 6]]
    rows = ",".join(json.dumps(row) for row in good)
    tried = case((f"[{rows},[7" if table else "[1,2,3,4,5,6,7").encode() + end.encode())
    require_alike(compiled, tried)
    read = read_by_loop(compiled, tried.body, tried.span, tried.spec)
    if isinstance(read, Beginning):
        assert read.values.tolist()[:6] == [1, 2, 3, 4, 5, 6]
        assert (read.columns, tried.body[read.stop - 1 : read.stop]) == (
            (2, b"]") if table else (0, b"%d" % read.values[-1])
        )


def test_a_body_too_short_for_a_word_is_left(compiled: Loop) -> None:
    assert read_by_loop(compiled, b"[1]", Span(0, 3, 0), TABLE) is None


def ready(loop: Loop) -> BackgroundLoop:
    """``loop``, compiled as it is."""
    background = BackgroundLoop(lambda: loop)
    background.begin()
    background.join()
    return background


def test_a_fault_is_worded_by_the_strict_reader(compiled: Loop) -> None:
    tried = case(b"[[1,2],[3,4.5]]")
    with pytest.raises(Refusal, match=r"^kv-canary: req_to_token\[1\]\[1\] must be an integer, got float$"):
        QuickArrayReader(ready(compiled))(tried.body, tried.span, tried.spec)


def test_the_loop_is_compiled_once_for_the_first_large_array_and_nobody_waits_for_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    begun, let = threading.Event(), threading.Event()
    used: list[int] = []

    def loop(*_: object) -> tuple[int, int, int, int]:
        used.append(1)
        return 0, 0, 0, 0

    def compiling() -> Loop:
        assert not begun.is_set()
        begun.set()
        assert let.wait(PATIENCE_SECONDS)
        return loop

    background = BackgroundLoop(compiling)
    reader = QuickArrayReader(background)

    def read(text: bytes) -> None:
        tried = case(text, WIDE)
        have, stop = reader(tried.body, tried.span, tried.spec)
        want, want_stop = decode_int_array(tried.body, tried.span, tried.spec)
        np.testing.assert_array_equal(have, want, strict=True)
        assert stop == want_stop

    read(b"[1,2]")
    assert not begun.is_set()
    read(LARGE)
    assert begun.wait(PATIENCE_SECONDS)
    read(LARGE)
    assert not used
    with caplog.at_level(logging.INFO, "service"):
        let.set()
        background.join()
    assert "the reader of large arrays was compiled in " in caplog.text
    read(LARGE)
    read(b"[1,2]")
    assert len(used) == 2


def test_where_the_loop_cannot_be_compiled_the_log_says_why_and_the_strict_reader_stays(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "numba", None)
    background = BackgroundLoop(compile_loop)
    reader = QuickArrayReader(background)
    for _ in range(2):
        tried = case(LARGE, WIDE)
        assert reader(tried.body, tried.span, tried.spec)[1] == len(tried.body)
        background.join()
    assert background.ready is None
    assert caplog.text.count("large arrays are read without numba: import of numba halted") == 1


def test_numba_that_is_turned_off_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    import numba

    monkeypatch.setattr(numba.config, "DISABLE_JIT", 1)
    with pytest.raises(ImportError, match="NUMBA_DISABLE_JIT"):
        compile_loop()


def test_without_a_folder_for_compiled_code_it_is_compiled_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    from numba.core import caching

    monkeypatch.setattr(caching.CacheImpl, "_locator_classes", [])
    assert require_the_strict_answer(compile_loop(), case(b"[[1,2],[3,4]]"))


def test_all_readers_of_a_process_share_the_loop(compiled: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quick_array, "_compiled_loop", BackgroundLoop(lambda: compiled))
    reader = quick_array_reader()
    assert wait_for_compiled_loop()
    assert wait_for_compiled_loop()
    monkeypatch.setattr(quick_array, "decode_int_array", None)
    tried = case(b"[5]")
    assert reader(tried.body, tried.span, tried.spec)[1] == len(tried.body)


def test_neither_the_reader_nor_the_command_line_loads_numba() -> None:
    code = """
import sys
import service.__main__
from service.wire.quick_array import quick_array_reader
quick_array_reader()
print("numba" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
