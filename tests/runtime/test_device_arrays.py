"""Large arrays are read on the device or handed over, and nobody can tell by the values which it was."""

import json
import threading
from typing import Any

import numpy as np
import pytest
import torch

from service.errors import Refusal
from service.runtime import device_arrays
from service.runtime.device_arrays import DeviceArrayReader
from service.spec import TensorSpec
from service.wire.int_array import decode_int_array
from service.wire.json_body import decode_any_body
from service.wire.json_members import Span
from tests.wire.fuzz_device_arrays import run

pytestmark = pytest.mark.triton

LENS = TensorSpec("prefix_lens", ("bs",), "int64", "")
LUT = TensorSpec("full_to_swa_index_mapping", ("n",), "int64", "", required=False)
TABLE = TensorSpec("req_to_token", ("rows", "cols"), "int32", "", required=False)


@pytest.fixture
def everything_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the device read arrays of any size, and texts travel in many chunks."""
    monkeypatch.setattr(device_arrays, "SMALLEST_SPAN_BYTES", 1)
    monkeypatch.setattr(device_arrays, "_SMALLEST_CHUNK_BYTES", 8)
    monkeypatch.setattr(device_arrays, "_LARGEST_CHUNK_BYTES", 12)
    monkeypatch.setattr(device_arrays, "_PINNED_BYTES", 25)


def read(reader: DeviceArrayReader, text: str, spec: TensorSpec) -> Any:
    """The array that a body's only field is."""
    return decode_any_body(f'{{"{spec.name}": {text}}}'.encode(), [spec], reader)[spec.name]


@pytest.mark.usefixtures("everything_is_large")
@pytest.mark.parametrize(("spec", "stays"), [(LENS, False), (LUT, True), (TABLE, True)], ids=lambda value: str(value))
def test_tables_stay_on_the_device_and_vectors_of_a_batch_come_back(
    spec: TensorSpec, stays: bool, kernel_device: torch.device
) -> None:
    cells = np.random.default_rng(3).integers(-(2**31), 2**31, 12)
    text = json.dumps((cells.reshape(3, 4) if spec.rank == 2 else cells).tolist())
    found = read(DeviceArrayReader(kernel_device), text, spec)
    assert isinstance(found, torch.Tensor if stays else np.ndarray)
    have = torch.as_tensor(found)
    assert have.device == (kernel_device if stays else torch.device("cpu"))
    assert have.dtype == getattr(torch, spec.dtype)
    assert have.tolist() == json.loads(text)


@pytest.mark.usefixtures("everything_is_large")
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
    def answer(reader: Any) -> object:
        try:
            return repr(decode_any_body(f'{{"{spec.name}": {text}}}'.encode(), [spec], reader))
        except Refusal as fault:
            return str(fault)

    assert answer(DeviceArrayReader(kernel_device)) == answer(decode_int_array)


def test_a_short_array_does_not_see_the_device(kernel_device: torch.device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DeviceArrayReader, "read_plain", None)
    reader = DeviceArrayReader(kernel_device)
    table = read(reader, "[[1, 2], [3, 4]]", TABLE)
    assert isinstance(table, np.ndarray)
    assert table.tolist() == [[1, 2], [3, 4]]
    assert read(reader, "[ 1,\n2 ]" + " " * 300, LENS).tolist() == [1, 2]
    with pytest.raises(Refusal, match="must be an integer, got bool"):
        read(reader, "[1, true]", LENS)


def test_the_reader_on_the_host_can_be_chosen(kernel_device: torch.device) -> None:
    def read_nothing(_body: bytes, span: Span, spec: TensorSpec) -> tuple[Any, int]:
        return spec.name, span.stop - 1

    assert read(DeviceArrayReader(kernel_device, on_host=read_nothing), "[1.0]", LENS) == "prefix_lens"


@pytest.mark.usefixtures("everything_is_large")
def test_memory_is_kept_for_the_next_text_but_not_after_an_error(
    kernel_device: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []
    lane = device_arrays._Lane

    def noted(device: torch.device, tile_bytes: int | None) -> object:
        made.append(device)
        return lane(device, tile_bytes)

    monkeypatch.setattr(device_arrays, "_Lane", noted)
    reader = DeviceArrayReader(kernel_device)
    reader.warm_up()
    for _ in range(2):
        assert read(reader, "[[1], [2]]", TABLE).tolist() == [[1], [2]]
    assert len(made) == 1

    def fail(*_arguments: object) -> None:
        raise MemoryError

    with monkeypatch.context() as patched:
        patched.setattr(lane, "_upload", fail)
        with pytest.raises(MemoryError):
            read(reader, "[[1]]", TABLE)
    assert read(reader, "[[1]]", TABLE).tolist() == [[1]]
    assert len(made) == 2


def test_damaged_arrays_are_read_as_the_strict_decoder_reads_them_or_left(kernel_device: torch.device) -> None:
    bodies, tiles = (20_000, (16, 64, 4096)) if kernel_device.type == "cuda" else (80, (256,))
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
