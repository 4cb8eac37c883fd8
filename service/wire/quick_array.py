"""Owns the quick reading of large arrays of integers: by a compiled loop where it can, else by the strict reader.

The loop accepts less than the strict reader and reads the same; all that it leaves goes there. It is compiled when the
first large array comes, in a thread of its own: who never sends one pays neither the seconds nor the memory, and nobody
waits for it. Needs numba; where that is absent or fails, every array is the strict reader's.
"""

import logging
import sys
import threading
import time
from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from service.spec import INTEGER_RANGE, TensorSpec
from service.wire.field_rules import IntArray
from service.wire.int_array import Beginning, decode_int_array
from service.wire.json_body import ArrayReader
from service.wire.json_members import Span

COMPILED_FOR_BYTES = 256 * 1024
"""The first array from here on has the loop compiled: smaller bodies hardly come to a reader of arrays."""

_PIECE_BYTES = 1024 * 1024
_WORD_BYTES = 8
_LEAST_BYTES = 2 * _WORD_BYTES  # fewer are hardly a body, and a single word might be aligned, unlike several
_logger = logging.getLogger(__name__)

Loop: TypeAlias = Callable[..., tuple[int, int, int, int]]
"""``read_integers`` of ``_array_loop``, compiled or not."""


def quick_array_reader() -> ArrayReader:
    """A reader of arrays that returns and raises what ``decode_int_array`` does. All of them share one loop."""
    return QuickArrayReader(_compiled_loop)


def wait_for_compiled_loop() -> bool:
    """Have the loop compiled now; whether arrays are read by it from here on."""
    _compiled_loop.begin()
    _compiled_loop.join()
    return _compiled_loop.ready is not None


def compile_loop() -> Loop:
    """The compiled loop, from numba's cache if there is a folder for it and it was there before.

    Raises whatever keeps numba from it: it is absent, too old or too new for numpy, or turned off.
    """
    import numba

    from service.wire._array_loop import SIGNATURE, read_integers

    if numba.config.DISABLE_JIT or sys.byteorder != "little":
        raise ImportError("numba is turned off by NUMBA_DISABLE_JIT, or the bytes of words are in another order")
    try:
        compiled: Loop = numba.njit([SIGNATURE], nogil=True, cache=True)(read_integers)
    except (RuntimeError, OSError):  # no folder that can be written to, or what is in it cannot be read
        compiled = numba.njit([SIGNATURE], nogil=True)(read_integers)
    return compiled


class BackgroundLoop:
    """A loop that is compiled once, in a thread of its own, which the interpreter waits for before it ends."""

    def __init__(self, compiling: Callable[[], Loop]) -> None:
        self._compiling = compiling
        self._thread = threading.Thread(target=self._compile, name="kv-plan-compiler")
        self._lock = threading.Lock()
        self.ready: Loop | None = None
        """The loop, None until it is compiled and where it cannot be."""

    def begin(self) -> None:
        """Begin to compile, if nobody has."""
        with self._lock:
            if self._thread.ident is None:
                self._thread.start()

    def join(self) -> None:
        """Wait until it is compiled, or cannot be."""
        self._thread.join()

    def _compile(self) -> None:
        began = time.perf_counter()
        try:
            self.ready = self._compiling()
        except Exception as error:
            _logger.warning("large arrays are read without numba: %s", error)
        else:
            _logger.info("the reader of large arrays was compiled in %.1f s", time.perf_counter() - began)


class QuickArrayReader:
    """Reads arrays by ``loop`` once it is ready, and by the strict reader till then and whatever is out of the way."""

    def __init__(self, loop: BackgroundLoop) -> None:
        self._loop = loop

    def __call__(self, body: bytes, span: Span, spec: TensorSpec) -> tuple[IntArray, int]:
        """The array that begins at ``span.start`` and the position after it, as ``decode_int_array`` has them."""
        loop = self._loop.ready
        if loop is not None:
            read = read_by_loop(loop, body, span, spec)
            return read if isinstance(read, tuple) else decode_int_array(body, span, spec, beginning=read)
        if span.stop - span.start >= COMPILED_FOR_BYTES:
            self._loop.begin()
        return decode_int_array(body, span, spec)


def read_by_loop(loop: Loop, body: bytes, span: Span, spec: TensorSpec) -> tuple[IntArray, int] | Beginning | None:
    """The array that begins at ``span.start`` and the position after it; when the strict reader is to look, what it
    need not read again, if there is anything.
    """
    text = np.frombuffer(body, np.uint8)
    elements = _commas(text[span.start : span.stop]) + 1
    # Each has a digit and a comma or bracket, so that no text asks for more memory than an array of its length.
    if len(body) < _LEAST_BYTES or 2 * elements > span.stop - span.start:
        return None
    values: IntArray = np.empty(elements, spec.dtype)
    words = np.ndarray(len(body) - _WORD_BYTES + 1, np.uint64, body, strides=(1,))
    bounds = (values.itemsize // 4, INTEGER_RANGE[spec.dtype][1])
    is_whole, count, columns, stop = loop(text, words, span.start, values.view(np.uint32), *bounds)
    if not is_whole:
        return Beginning(values[:count], int(columns), int(stop)) if count else None
    shape = (count // columns, columns) if columns else (count,)
    return values[:count].reshape(shape), stop


def _commas(text: np.ndarray[tuple[int], np.dtype[np.uint8]]) -> int:
    pieces = range(0, len(text), _PIECE_BYTES)
    return sum(int(np.count_nonzero(text[start : start + _PIECE_BYTES] == ord(","))) for start in pieces)


_compiled_loop = BackgroundLoop(compile_loop)
