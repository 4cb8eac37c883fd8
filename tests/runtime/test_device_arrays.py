"""Large arrays are read on the device or handed over, and nobody can tell by the values which it was."""

import json
import threading
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from service.errors import Refusal
from service.runtime import device_arrays
from service.runtime.device_arrays import DeviceArrayReader, ReaderSizes
from service.spec import TensorSpec
from service.wire.json_body import decode_any_body
from service.wire.json_members import Span, find_quote
from tests.wire.fuzz_device_arrays import run

pytestmark = pytest.mark.triton

LENS = TensorSpec("prefix_lens", ("bs",), "int64", "")
LUT = TensorSpec("full_to_swa_index_mapping", ("n",), "int64", "", required=False)
TABLE = TensorSpec("req_to_token", ("rows", "cols"), "int32", "", required=False)


EAGER = ReaderSizes(0, 0, chunk=10, chunks=2, tile=64)
"""Sizes that let the device read arrays of any size, and bodies travel in many chunks."""


def read(reader: DeviceArrayReader, text: str, spec: TensorSpec) -> Any:
    """The array that a body's only field is."""
    body = f'{{"{spec.name}": {text}}}'.encode()
    with reader.reading(body) as body_reader:
        return decode_any_body(body, [spec], body_reader)[spec.name]


@pytest.mark.parametrize(("spec", "stays"), [(LENS, False), (LUT, True), (TABLE, True)], ids=lambda value: str(value))
def test_tables_stay_on_the_device_and_vectors_of_a_batch_come_back(
    spec: TensorSpec, stays: bool, kernel_device: torch.device
) -> None:
    cells = np.random.default_rng(3).integers(-(2**31), 2**31, 12)
    text = json.dumps((cells.reshape(3, 4) if spec.rank == 2 else cells).tolist())
    found = read(DeviceArrayReader(kernel_device, sizes=EAGER), text, spec)
    assert isinstance(found, torch.Tensor if stays else np.ndarray)
    have = torch.as_tensor(found)
    assert have.device == (kernel_device if stays else torch.device("cpu"))
    assert have.dtype == getattr(torch, spec.dtype)
    assert have.tolist() == json.loads(text)


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        ("[[1, 2], [3]]", TABLE),
        ("[[1, 2147483648]]", TABLE),
        ("[1, 2.5]", LENS),
        ("[ 1,\n2 ]", LENS),
        ("[]", TABLE),
        ("[[1]]", LENS),
        ("[1]", TABLE),
        ("[1, 2", LENS),
        ("[1]" + " " * 300, LENS),
    ],
    ids=str,
)
def test_what_the_kernels_leave_is_decided_on_the_host(
    text: str, spec: TensorSpec, kernel_device: torch.device
) -> None:
    def answer(reader: DeviceArrayReader) -> object:
        try:
            return repr(read(reader, text, spec))
        except Refusal as fault:
            return str(fault)

    assert answer(DeviceArrayReader(kernel_device, sizes=EAGER)) == answer(DeviceArrayReader(kernel_device))


def test_arrays_of_one_body_are_read_in_any_order(kernel_device: torch.device) -> None:
    body = b'{"req_to_token": [[1, 2],\n[3, 4]], "full_to_swa_index_mapping": [5,6,7], "prefix_lens": [8, 9]}'
    with DeviceArrayReader(kernel_device, sizes=EAGER).reading(body) as body_reader:
        fields: dict[str, Any] = decode_any_body(body, [LENS, TABLE, LUT], body_reader)
    assert {name: value.tolist() for name, value in fields.items()} == json.loads(body)
    assert [type(value) for value in fields.values()] == [np.ndarray, np.ndarray, torch.Tensor]


@pytest.mark.parametrize("sizes", [None, ReaderSizes(smallest_body=0)], ids=["small body", "small array"])
def test_what_is_small_is_read_on_the_host(
    sizes: ReaderSizes | None, kernel_device: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device_arrays._Lane, "read", None)
    reader = DeviceArrayReader(kernel_device, sizes=sizes)
    table = read(reader, "[[1, 2], [3, 4]]", TABLE)
    assert isinstance(table, np.ndarray)
    assert table.tolist() == [[1, 2], [3, 4]]
    assert read(reader, "[ 1,\n2 ]" + " " * 300, LENS).tolist() == [1, 2]
    with pytest.raises(Refusal, match="must be an integer, got bool"):
        read(reader, "[1, true]", LENS)


def test_only_the_body_that_was_sent_is_read_on_the_device(kernel_device: torch.device) -> None:
    body, other = b'{"req_to_token": [[1], [2]]}', b'{"req_to_token": [[1], [3]]}'
    with DeviceArrayReader(kernel_device, sizes=EAGER).reading(body) as body_reader:
        here, elsewhere = (decode_any_body(text, [TABLE], body_reader)["req_to_token"] for text in (body, other))
    late = decode_any_body(body, [TABLE], body_reader)["req_to_token"]
    assert [isinstance(table, torch.Tensor) for table in (here, elsewhere, late)] == [True, False, False]
    assert [np.asarray(table).tolist() for table in (elsewhere, late)] == [[[1], [3]], [[1], [2]]]


@pytest.mark.parametrize("most", [0, 7, 8, 100])
@pytest.mark.parametrize("chunk", [10, 64])
def test_quotes_are_found_wherever_that_is(
    chunk: int, most: int, kernel_device: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device_arrays, "_MOST_QUOTES", most)
    body, other = b'{"a": "b", "c": [1, 2], "": 5}', b'"a"'
    sizes = replace(EAGER, chunk=chunk)
    with DeviceArrayReader(kernel_device, sizes=sizes).reading(body) as body_reader:
        for text in (other, body, other):
            for position in range(len(text) + 2):
                assert body_reader.find_quote(text, position) == find_quote(text, position)
    assert body_reader.find_quote(body, 2) == find_quote(body, 2)


def test_the_reader_on_the_host_can_be_chosen(kernel_device: torch.device) -> None:
    def read_nothing(_body: bytes, span: Span, spec: TensorSpec) -> tuple[Any, int]:
        return spec.name, span.stop - 1

    assert read(DeviceArrayReader(kernel_device, read_nothing), "[1.0]", LENS) == "prefix_lens"
    assert read(DeviceArrayReader(kernel_device, read_nothing, sizes=EAGER), "[1.0]", LENS) == "prefix_lens"


def test_memory_is_kept_for_the_next_body_also_after_a_refusal(
    kernel_device: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []
    lane = device_arrays._Lane

    def noted(device: torch.device, sizes: ReaderSizes) -> object:
        made.append(device)
        return lane(device, sizes)

    monkeypatch.setattr(device_arrays, "_Lane", noted)
    reader = DeviceArrayReader(kernel_device, sizes=EAGER)
    reader.warm_up()
    assert read(reader, "[[1], [2]]", TABLE).tolist() == [[1], [2]]
    with pytest.raises(Refusal, match="rows differ in length"):
        read(reader, "[[1], [2, 3]]", TABLE)
    assert read(reader, "[[4], [5]]", TABLE).tolist() == [[4], [5]]
    assert len(made) == 1
    with reader.reading(b"{}"), reader.reading(b"{}"):
        assert len(made) == 2


def test_damaged_arrays_are_read_as_the_strict_decoder_reads_them_or_left(kernel_device: torch.device) -> None:
    bodies, tiles = (20_000, (16, 64, 4096)) if kernel_device.type == "cuda" else (40, (256,))
    assert run(bodies, 11, kernel_device, tiles) > bodies // 8


@pytest.mark.gpu
def test_threads_read_at_the_same_time_while_the_device_is_busy(kernel_device: torch.device) -> None:
    reader = DeviceArrayReader(kernel_device)
    tables = [np.random.default_rng(seed).integers(-(2**31), 2**31, (64, 999 + seed)) for seed in range(8)]
    texts = [json.dumps(table.tolist()) for table in tables]
    wrong = []

    def read_often(at: int) -> None:
        for _ in range(20):
            found = read(reader, texts[at], TABLE)
            sums = found.sum(dtype=torch.int64)  # on the default stream, where it is freed at once
            if int(sums) != int(tables[at].sum()) or not found.is_cuda:
                wrong.append(at)

    threads = [threading.Thread(target=read_often, args=(at,)) for at in range(len(tables))]
    for thread in threads:
        thread.start()
    busy = torch.ones((2048, 2048), device=kernel_device)
    for _ in range(200):
        busy = (busy @ busy).clamp(max=1.0)
    for thread in threads:
        thread.join()
    assert not wrong
