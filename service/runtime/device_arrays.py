"""Owns the reading of large arrays of a body on a CUDA device: their text travels there as it is, and is parsed there.

Whatever the kernels do not take, a reader on the host decides: it accepts an odd spelling or words the error.
"""

from collections.abc import Container
from contextlib import nullcontext
from typing import Any, cast

import numpy as np
import torch

from service.spec import EXPECTED_TOKENS, FULL_TO_SWA_INDEX_MAPPING, REQ_TO_TOKEN, TensorSpec
from service.wire.field_rules import IntArray
from service.wire.int_array import decode_int_array
from service.wire.json_body import ArrayReader
from service.wire.json_members import Span
from service.wire.small_body import decode_small_body

SMALLEST_SPAN_BYTES = 64 * 1024
"""Shorter spans are read on the host: it takes no longer than the ways to the device and back."""
_TAIL_BYTES = 256
"""How far before the end of its span an array is looked for."""
_PINNED_BYTES = 16 * 1024 * 1024
_SMALLEST_CHUNK_BYTES = 2 * 1024 * 1024
_LARGEST_CHUNK_BYTES = _PINNED_BYTES // 2
_TABLES = frozenset(spec.name for spec in (REQ_TO_TOKEN, FULL_TO_SWA_INDEX_MAPPING, EXPECTED_TOKENS))


class DeviceArrayReader:
    """An ``ArrayReader`` that reads large arrays on a device. Several threads may use it at a time.

    Fields whose names are in ``stays`` become tensors on the device when they are read there, all others arrays on the
    host. A tensor is complete when it is returned, and belongs to the stream that was the caller's current one.
    ``on_host`` decides about every array that is odd, and has the last word.
    """

    def __init__(
        self,
        device: torch.device,
        on_host: ArrayReader = decode_int_array,
        stays: Container[str] = _TABLES,
        tile_bytes: int | None = None,
    ) -> None:
        self._device = device
        self._on_host = on_host
        self._stays = stays
        self._tile_bytes = tile_bytes
        self._lanes: list[_Lane] = []

    def __call__(self, body: bytes, span: Span, spec: TensorSpec) -> tuple[torch.Tensor | IntArray, int]:
        """The array that begins at ``span.start`` and the position after it; refused as ``on_host`` does."""
        is_large = span.stop - span.start >= SMALLEST_SPAN_BYTES
        found = self.read_plain(body, span, spec) if is_large else _read_small(body, span, spec)
        return found or self._on_host(body, span, spec)

    def read_plain(self, body: bytes, span: Span, spec: TensorSpec) -> tuple[torch.Tensor | IntArray, int] | None:
        """The same on the device, however small; None if the array is faulty or not plainly spelt."""
        stop = _array_stop(body, span)
        is_table = body[span.start + 1 : span.start + 2] == b"["
        if stop is None or is_table != (spec.rank == 2):
            return None
        try:
            lane = self._lanes.pop()
        except IndexError:
            lane = _Lane(self._device, self._tile_bytes)
        text = _read_only_tensor(body)[span.start : stop]
        found: torch.Tensor | IntArray | None = lane.read(text, is_table=is_table, dtype=getattr(torch, spec.dtype))
        if isinstance(found, torch.Tensor) and spec.name not in self._stays:
            found = lane.on_host(found)
        self._lanes.append(lane)  # only now: after an error, copies from its memory may still be under way
        return None if found is None else (found, stop)

    def warm_up(self) -> None:
        """Compile what reading any array needs, and reserve memory for one thread."""
        lane = _Lane(self._device, self._tile_bytes)
        lane.warm_up()
        self._lanes.append(lane)


class _Lane:
    """A stream, and pinned memory that a text passes through in chunks, for one thread at a time.

    While a chunk travels to the device the next is copied into pinned memory, by several threads of torch and without
    the interpreter lock.
    """

    def __init__(self, device: torch.device, tile_bytes: int | None) -> None:
        from service.kernels import json_parser  # where Triton is missing nobody gets here

        on_cuda = device.type == "cuda"
        self._parser = json_parser
        self._device = device
        self._tile_bytes = tile_bytes or json_parser.TILE_BYTES
        self._streams: Any = torch.get_device_module(device)
        with torch.cuda.device(device) if on_cuda else nullcontext():
            self._stream = self._streams.Stream()
            self._pinned = torch.empty(_PINNED_BYTES, dtype=torch.uint8, pin_memory=on_cuda)
            self._sent = [self._streams.Event() for _ in range(_PINNED_BYTES // _SMALLEST_CHUNK_BYTES)]

    def read(self, text: torch.Tensor, *, is_table: bool, dtype: torch.dtype) -> torch.Tensor | None:
        """The integers that ``text`` [bytes] uint8 spells, on the device; None if they are not plain or not valid."""
        with self._streams.stream(self._stream):
            words = self._upload(text)
            survey = self._parser.survey_array(words, len(text), is_table=is_table, tile_bytes=self._tile_bytes)
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
        """Compile the kernels."""
        with self._streams.stream(self._stream):
            self._parser.warm_up(self._device)

    def _upload(self, text: torch.Tensor) -> torch.Tensor:
        """[ceil(bytes / 4)] int32: the bytes of ``text`` on the device."""
        words = torch.empty(-(-len(text) // self._parser.WORD_BYTES), dtype=torch.int32, device=self._device)
        target = words.view(torch.uint8)
        chunk_bytes = min(max(len(text) // 4, _SMALLEST_CHUNK_BYTES), _LARGEST_CHUNK_BYTES)
        chunks = _PINNED_BYTES // chunk_bytes
        for number, start in enumerate(range(0, len(text), chunk_bytes)):
            piece = text[start : start + chunk_bytes]
            chunk = self._pinned[number % chunks * chunk_bytes :][: len(piece)]
            sent = self._sent[number % chunks]
            sent.synchronize()  # the copy that last left from this chunk
            chunk.copy_(piece)
            target[start : start + len(piece)].copy_(chunk, non_blocking=True)
            sent.record()
        return words


def _array_stop(body: bytes, span: Span) -> int | None:
    """The position after the array in ``span`` if there is one and nothing but a few other bytes behind it."""
    return body.rfind(b"]", max(span.start, span.stop - _TAIL_BYTES), span.stop) + 1 or None


def _read_small(body: bytes, span: Span, spec: TensorSpec) -> tuple[IntArray, int] | None:
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
