"""Owns the reading of large arrays of a body on a CUDA device: the body travels there as it is, and is parsed there.

Whatever the kernels do not take, a reader on the host decides: it accepts an odd spelling or words the error.
"""

from bisect import bisect_left
from collections.abc import Container, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import numpy as np
import torch

from service.spec import EXPECTED_TOKENS, FULL_TO_SWA_INDEX_MAPPING, REQ_TO_TOKEN, TensorSpec
from service.wire.field_rules import IntArray
from service.wire.int_array import decode_int_array
from service.wire.json_body import ArrayReader, BodyReader
from service.wire.json_members import Span, find_quote
from service.wire.small_body import SMALL_BODY_BYTES, decode_small_body

_TABLES = frozenset(spec.name for spec in (REQ_TO_TOKEN, FULL_TO_SWA_INDEX_MAPPING, EXPECTED_TOKENS))
_MOST_QUOTES = 4096
"""More than the names of any body that is right have."""
_TAIL_BYTES = 256
"""How far before the end of its span an array is looked for."""


@dataclass(frozen=True, slots=True)
class ReaderSizes:
    """From how many bytes on bodies and spans see the device, in which chunks bodies travel, and tiles are parsed."""

    smallest_body: int = SMALL_BODY_BYTES + 1
    smallest_span: int = 48 * 1024
    """Shorter spans are read as soon on the host as on the way to the device and back."""
    chunk: int = 16 * 1024 * 1024
    """Each chunk takes the host some time: one should do for most bodies, since they travel behind its back."""
    chunks: int = 4
    """Pinned memory holds so many: what it holds travels before the members of the body are told apart."""
    tile: int = 4096
    """A power of 2."""


class DeviceArrayReader:
    """Reads large arrays of large bodies on a device. Several threads may use it at a time.

    Fields whose names are in ``stays`` become tensors on the device when they are read there, all others arrays on the
    host. ``on_host`` decides about every array that is odd, and has the last word.
    """

    def __init__(
        self,
        device: torch.device,
        on_host: ArrayReader = decode_int_array,
        stays: Container[str] = _TABLES,
        sizes: ReaderSizes | None = None,
    ) -> None:
        self._device = device
        self._on_host = on_host
        self._stays = stays
        self._sizes = sizes or ReaderSizes()
        self._lanes: list[_Lane] = []

    @contextmanager
    def reading(self, body: bytes) -> Iterator[BodyReader]:
        """A reader of this ``body``, which goes to the device here if it is large.

        Anything else, and after the end of the context anything at all, is read on the host. A tensor is complete when
        it is returned, and belongs to the stream that is the caller's current one then.
        """
        if len(body) < self._sizes.smallest_body:
            yield BodyReader(self._read_on_host)
            return
        try:
            lane = self._lanes.pop()
        except IndexError:
            lane = _Lane(self._device, self._sizes)
        lane.begin(body)
        try:
            yield BodyReader(partial(self._read, lane), lane.find_quote)
        finally:
            lane.end()
            self._lanes.append(lane)

    def warm_up(self) -> None:
        """Compile what reading any array needs, and reserve memory for one thread."""
        lane = _Lane(self._device, self._sizes)
        lane.warm_up()
        self._lanes.append(lane)

    def _read(self, lane: "_Lane", body: bytes, span: Span, spec: TensorSpec) -> tuple[torch.Tensor | IntArray, int]:
        """The array that begins at ``span.start`` and the position after it; refused as ``on_host`` does."""
        stop = _array_stop(body, span)
        is_table = body[span.start + 1 : span.start + 2] == b"["
        is_long = lane.carries(body) and not self._is_short(span)
        if is_long and stop is not None and is_table == (spec.rank == 2):
            integers = lane.read((span.start, stop), is_table=is_table, dtype=getattr(torch, spec.dtype))
            if integers is not None:
                return integers if spec.name in self._stays else lane.on_host(integers), stop
        return self._read_on_host(body, span, spec)

    def _read_on_host(self, body: bytes, span: Span, spec: TensorSpec) -> tuple[IntArray, int]:
        found = _read_short(body, span, spec) if self._is_short(span) else None
        return found or self._on_host(body, span, spec)

    def _is_short(self, span: Span) -> bool:
        return span.stop - span.start < self._sizes.smallest_span


class _Lane:
    """A stream, and pinned memory that one body at a time passes through in chunks.

    While a chunk travels to the device the next is copied into pinned memory, by several threads of torch and without
    the interpreter lock. A chunk is not used again before it has arrived, whatever became of its body.
    """

    def __init__(self, device: torch.device, sizes: ReaderSizes) -> None:
        from service.kernels import json_parser  # where Triton is missing nobody gets here

        self._parser = json_parser
        self._device = device
        self._sizes = sizes
        self._streams: Any = torch.get_device_module(device)
        with torch.cuda.device(device) if device.type == "cuda" else nullcontext():
            self._stream = self._streams.Stream()
        self._chunks: list[tuple[torch.Tensor, Any]] = []
        self._carried: bytes | None
        self._found: torch.Tensor | None
        self._quotes: list[int] | None
        self._sent_bytes: int
        self.end()

    def begin(self, body: bytes) -> None:
        """Send off as much of ``body`` as pinned memory takes."""
        self._carried = body
        self._body = _read_only_tensor(body)
        with self._streams.stream(self._stream):
            words = -(-len(body) // self._parser.WORD_BYTES)
            self._words = torch.empty(words, dtype=torch.int32, device=self._device)
            self._send(min(len(body), self._sizes.chunks * self._sizes.chunk))
            if self._sent_bytes == len(body):
                self._found = self._parser.find_quotes(self._words, len(body), self._sizes.tile, _MOST_QUOTES)

    def find_quote(self, body: bytes, position: int) -> int:
        """What ``find_quote`` of any body is; of the one that is carried, it has been found on the device."""
        if self._found is not None and self.carries(body):
            with self._streams.stream(self._stream):
                found = self._found.cpu().numpy()
            self._found = None
            count = int(found[0])
            self._quotes = sorted(found[1 : 1 + count].tolist()) if count <= _MOST_QUOTES else None
        if self._quotes is None or not self.carries(body):
            return find_quote(body, position)
        index = bisect_left(self._quotes, position)
        return self._quotes[index] if index < len(self._quotes) else len(body)

    def end(self) -> None:
        """Forget the body."""
        self._carried = None
        self._found = None
        self._quotes = None
        self._body = torch.empty(0, dtype=torch.uint8)
        self._words = torch.empty(0, dtype=torch.int32)
        self._sent_bytes = 0

    def carries(self, body: bytes) -> bool:
        """Whether it is this very body that is on its way, or there."""
        return body is self._carried

    def read(self, text: tuple[int, int], *, is_table: bool, dtype: torch.dtype) -> torch.Tensor | None:
        """The integers that the bytes [start, stop) of the body spell, None if they are not plain or not valid."""
        start, stop = text
        with self._streams.stream(self._stream):
            self._send(stop)
            survey = self._parser.survey_array(self._words, start, stop, is_table=is_table, tile_bytes=self._sizes.tile)
        if survey is None:
            return None
        # Of the caller's stream, which alone will use and free it. What that stream still does with the same memory
        # comes first.
        integers = torch.empty(survey.shape, dtype=dtype, device=self._device)
        self._stream.wait_stream(self._streams.current_stream(self._device))
        with self._streams.stream(self._stream):
            return integers if self._parser.read_integers(survey, integers) else None

    def on_host(self, integers: torch.Tensor) -> IntArray:
        """A copy on the host."""
        with self._streams.stream(self._stream):
            copy: IntArray = integers.cpu().numpy()
        return copy

    def warm_up(self) -> None:
        """Compile the kernels, and pin the memory that most bodies need."""
        with self._streams.stream(self._stream):
            self._pinned(0)
            self._parser.warm_up(self._device, self._sizes.tile)

    def _send(self, stop: int) -> None:
        """Send off what has not been sent of the bytes before ``stop``, and what fills up the last chunk."""
        target = self._words.view(torch.uint8)
        while self._sent_bytes < stop:
            start = self._sent_bytes
            piece = self._body[start : start + self._sizes.chunk]
            pinned, arrived = self._pinned(start // self._sizes.chunk % self._sizes.chunks)
            arrived.synchronize()  # what was in it before
            chunk = pinned[: len(piece)].copy_(piece)
            target[start : start + len(piece)].copy_(chunk, non_blocking=True)
            arrived.record(self._stream)
            self._sent_bytes += len(piece)

    def _pinned(self, number: int) -> tuple[torch.Tensor, Any]:
        """A chunk of pinned memory, which is kept once it has been needed, and the event of its last arrival."""
        if number == len(self._chunks):
            memory = torch.empty(self._sizes.chunk, dtype=torch.uint8, pin_memory=self._device.type == "cuda")
            self._chunks.append((memory, self._streams.Event()))
        return self._chunks[number]


def _array_stop(body: bytes, span: Span) -> int | None:
    """The position after the array in ``span`` if there is one and nothing but a few other bytes behind it."""
    return body.rfind(b"]", max(span.start, span.stop - _TAIL_BYTES), span.stop) + 1 or None


def _read_short(body: bytes, span: Span, spec: TensorSpec) -> tuple[IntArray, int] | None:
    """The array in a short span, None if only a closer look can tell what it holds: quicker than many numpy calls."""
    stop = _array_stop(body, span)
    if stop is None:
        return None
    decoded = decode_small_body(b'{"%b": %b}' % (spec.name.encode(), body[span.start : stop]), (spec,))
    return None if decoded is None else (cast(IntArray, decoded[spec.name]), stop)


class _Unlocked:
    """The bytes of a body as memory that could be written, which torch wants to see; nobody writes to it."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        view = np.frombuffer(body, np.uint8)
        self.__array_interface__ = view.__array_interface__ | {"data": (view.ctypes.data, False)}


def _read_only_tensor(body: bytes) -> torch.Tensor:
    """[bytes] uint8: the memory of ``body`` itself, which must not be written to."""
    return torch.from_numpy(np.asarray(_Unlocked(body)))
