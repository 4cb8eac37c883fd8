"""The measurement of the codecs: every path must read and write the same before its time is told."""

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from service.bench import codec_paths, codec_run
from service.bench.codec_command import run_codecs
from service.bench.codec_paths import DECODE_PATHS, ENCODE_PATHS, body_of, plan_of
from service.bench.codec_run import CodecCell, CodecOptions, absent_paths, measure_codecs
from service.bench.equality import DifferentAnswer
from service.spec import TensorSpec

OPTIONS = CodecOptions(tables=((3, 4), (9, 64)), entries=(5,), rounds=3)


@pytest.fixture(autouse=True)
def short_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rounds of one or two runs."""
    monkeypatch.setattr(codec_run, "_ROUND_SECONDS", 1e-9)


def cells() -> list[CodecCell]:
    """All cells of a measurement."""
    return [cell for measured in measure_codecs(OPTIONS, lambda _: None) for cell in measured]


def test_a_body_says_what_its_arrays_hold() -> None:
    body, specs, arrays = body_of(3, 4)
    fields = json.loads(body)
    assert list(fields) == [spec.name for spec in specs] == list(arrays)
    assert all(arrays[spec.name].tolist() == fields[spec.name] for spec in specs)
    assert np.asarray(fields["req_to_token"]).shape == (3, 4)
    assert [len(array) for array in plan_of(5).values()] == [5] * 4


def test_every_path_is_measured_for_every_text() -> None:
    found = cells()
    absent = absent_paths()
    decoding, encoding = ([p.name for p in paths if p.name not in absent] for paths in (DECODE_PATHS, ENCODE_PATHS))
    assert [cell.path for cell in found] == decoding * 2 + encoding
    assert [cell.direction for cell in found] == ["decode"] * 2 * len(decoding) + ["encode"] * len(encoding)
    assert found[0].text_bytes == len(body_of(3, 4)[0])
    assert found[-1].text_bytes == len(ENCODE_PATHS[0].run(plan_of(5)))
    assert all(cell.seconds > 0 and cell.speedup > 0 for cell in found)
    assert all(cell.bytes_per_second == cell.text_bytes / cell.seconds for cell in found)
    assert {cell.speedup for cell in found if cell.path in (decoding[0], encoding[0])} == {1.0}


def test_a_cell_is_the_median_of_its_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = iter([1.0, 9.0, 2.0, 2.0, 4.0, 1.0])  # two paths, three rounds
    monkeypatch.setattr(codec_run, "_seconds", lambda _: next(seconds))
    one, other = codec_run._cells("decode", 8, {"one": lambda: 0, "other": lambda: 0}, 3)
    assert (one.seconds, one.speedup, one.bytes_per_second) == (2.0, 1.0, 4.0)
    assert (other.seconds, other.speedup) == (2.0, 1.0)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda table: table + 1,
        lambda table: table.astype(np.int64),
        lambda table: table[:1],
        lambda table: table.tolist(),
    ],
)
def test_a_table_that_is_read_wrong_is_told(
    monkeypatch: pytest.MonkeyPatch, wrong: Callable[[NDArray[Any]], object]
) -> None:
    def run(_: bytes, __: list[TensorSpec]) -> dict[str, object]:
        arrays = body_of(3, 4)[2]
        return {**arrays, "req_to_token": wrong(arrays["req_to_token"])}

    monkeypatch.setattr(codec_run, "DECODE_PATHS", (DECODE_PATHS[0], replace(DECODE_PATHS[2], run=run)))
    with pytest.raises(DifferentAnswer, match=r"^orjson, numpy.array, 3 x 4: req_to_token is not what the text says$"):
        cells()


def test_a_plan_that_is_written_differently_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    spaced = replace(ENCODE_PATHS[1], run=lambda arrays: b" " + ENCODE_PATHS[0].run(arrays))
    monkeypatch.setattr(codec_run, "ENCODE_PATHS", (ENCODE_PATHS[0], spaced))
    with pytest.raises(
        DifferentAnswer, match=r"^orjson.dumps of lists, 5 entries: not the text of json.dumps of lists$"
    ):
        cells()


def test_a_path_without_its_package_is_listed_as_absent(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "orjson", None)
    monkeypatch.setitem(sys.modules, "pydantic", None)
    run_codecs(OPTIONS, tmp_path)
    assert "absent: orjson, numpy.array (orjson is missing)\n" in capsys.readouterr().out
    told = json.loads((tmp_path / "codecs.json").read_text(encoding="utf-8"))
    assert told["absent"]["the service"] == ["orjson"]
    assert [cell["path"] for cell in told["cells"]] == [DECODE_PATHS[0].name] * 2 + [ENCODE_PATHS[0].name]


@pytest.mark.triton
def test_the_command_prints_and_writes_every_cell(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(codec_run, "has_cuda", lambda: True)
    monkeypatch.setattr(codec_paths, "_device", lambda: torch.device("cpu"))
    run_codecs(OPTIONS, tmp_path / "new")
    out = capsys.readouterr().out
    assert all(path.name in out for path in (*DECODE_PATHS, *ENCODE_PATHS))
    told = json.loads((tmp_path / "new" / "codecs.json").read_text(encoding="utf-8"))
    assert (told["kind"], told["absent"], len(told["cells"])) == (
        "codecs",
        {},
        2 * len(DECODE_PATHS) + len(ENCODE_PATHS),
    )
    assert told["hardware"]["cpu"]
    assert all(cell["bytes_per_second"] > 0 for cell in told["cells"])


def test_the_device_that_is_measured_is_the_current_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 3)
    assert codec_paths._device() == torch.device("cuda:3")
