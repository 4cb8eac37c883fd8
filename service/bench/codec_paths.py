"""Owns the ways between JSON text and arrays that are compared. A new one is one entry here.

Each imports its package when it runs, so that a machine without the package can measure the others.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from service.bench.batches import BatchShape, draw_batch, table_fields, vector_fields
from service.plan.inputs import PlanInputs
from service.spec import TensorSpec

CUDA = "a CUDA device"
Arrays = dict[str, NDArray[np.int32] | NDArray[np.int64]]


@dataclass(frozen=True, slots=True)
class DecodePath:
    """One way from a body to arrays or tensors of the fields' dtypes, wherever they are; ``run`` returns when they are.

    ``needs`` are the packages without which it cannot run; ``CUDA`` stands for a device.
    """

    name: str
    needs: tuple[str, ...]
    run: Callable[[bytes, list[TensorSpec]], Mapping[str, object]]


@dataclass(frozen=True, slots=True)
class EncodePath:
    """One way from the arrays of a plan to compact JSON text. ``prepare``, which is not timed, puts them in place."""

    name: str
    needs: tuple[str, ...]
    run: Callable[[Any], bytes | memoryview]
    prepare: Callable[[Arrays], Any] = lambda arrays: arrays


def body_of(rows: int, cols: int) -> tuple[bytes, list[TensorSpec], Arrays]:
    """A body with a table of that size, its fields, and the arrays that it describes."""
    inputs = draw_batch(BatchShape("codec", (1,) * (rows - 1), rows, cols))
    body = json.dumps(vector_fields(inputs) | table_fields(inputs), separators=(",", ":")).encode()
    return body, [spec for _, spec in inputs.tensors()], _arrays(inputs)


def plan_of(entries: int) -> Arrays:
    """Arrays such as a plan of so many verify entries has."""
    generator = np.random.default_rng(20)
    slots = generator.permutation(entries)
    return {
        "verify_slot_indices": slots,
        "verify_expected_tokens": np.full(entries, -1),
        "verify_expected_positions": np.arange(entries) % 4096,
        "verify_prev_slot_indices": np.roll(slots, 1),
    }


def _arrays(inputs: PlanInputs) -> Arrays:
    return {spec.name: tensor.numpy() for tensor, spec in inputs.tensors()}


def _json_and_torch(body: bytes, specs: list[TensorSpec]) -> Mapping[str, object]:
    fields = json.loads(body)
    return {spec.name: torch.tensor(fields[spec.name], dtype=getattr(torch, spec.dtype)) for spec in specs}


def _fastapi_and_torch(body: bytes, specs: list[TensorSpec]) -> Mapping[str, object]:
    """What FastAPI does before it calls an endpoint that takes a model, and what that does then."""
    fields = vars(_model_of(tuple(specs)).model_validate(json.loads(body)))
    return {spec.name: torch.tensor(fields[spec.name], dtype=getattr(torch, spec.dtype)) for spec in specs}


@cache
def _model_of(specs: tuple[TensorSpec, ...]) -> Any:
    from pydantic import create_model

    fields: dict[str, Any] = {spec.name: list[list[int]] if spec.rank == 2 else list[int] for spec in specs}
    return create_model("Body", **fields)


def _orjson_and_numpy(body: bytes, specs: list[TensorSpec]) -> Mapping[str, object]:
    import orjson

    fields = orjson.loads(body)
    return {spec.name: np.array(fields[spec.name], spec.dtype) for spec in specs}


def _service_strict(body: bytes, specs: list[TensorSpec]) -> Mapping[str, object]:
    from service.wire.json_body import decode_any_body

    return decode_any_body(body, specs)


def _service_quick(body: bytes, specs: list[TensorSpec]) -> Mapping[str, object]:
    from service.wire.json_body import BodyReader, decode_any_body
    from service.wire.quick_array import quick_array_reader, wait_for_compiled_loop

    wait_for_compiled_loop()
    return decode_any_body(body, specs, BodyReader(quick_array_reader()))


def _service_small(body: bytes, specs: list[TensorSpec]) -> Mapping[str, object]:
    from service.wire.small_body import decode_small_body

    return decode_small_body(body, specs) or {}


def _service_on_device(body: bytes, specs: list[TensorSpec]) -> Mapping[str, object]:
    from service.wire.json_body import decode_any_body

    with _device_reader().reading(body) as reader:
        return decode_any_body(body, specs, reader)


@cache
def _device_reader() -> Any:
    from service.runtime.device_arrays import DeviceArrayReader

    return DeviceArrayReader(_device())


def _device() -> torch.device:
    return torch.device("cuda", torch.cuda.current_device())


def _json_dumps(arrays: Arrays) -> bytes:
    return json.dumps({name: array.tolist() for name, array in arrays.items()}, separators=(",", ":")).encode()


def _orjson_lists(arrays: Arrays) -> bytes:
    import orjson

    return orjson.dumps({name: array.tolist() for name, array in arrays.items()})


def _service_encoder(arrays: Arrays) -> bytes:
    from service.wire.json_answer import encode_json

    return encode_json(arrays)


def _to_device(arrays: Arrays) -> dict[str, torch.Tensor]:
    """The arrays in one allocation on the device, as plans leave them there."""
    memory = torch.from_numpy(np.concatenate(list(arrays.values()))).to(_device())
    stops = np.cumsum([len(array) for array in arrays.values()]).tolist()
    return {name: memory[stop - len(array) : stop] for (name, array), stop in zip(arrays.items(), stops, strict=True)}


def _copy_and_encode(tensors: Mapping[str, torch.Tensor]) -> bytes:
    from service.wire.json_answer import encode_json

    device = _device()
    host = {}
    for name, tensor in tensors.items():
        host[name] = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=device.type == "cuda")
        host[name].copy_(tensor, non_blocking=True)
    torch.get_device_module(device).synchronize()
    return encode_json({name: tensor.numpy() for name, tensor in host.items()})


def _print_on_device(tensors: Mapping[str, torch.Tensor]) -> memoryview:
    from service.runtime.answer_printer import print_answer
    from service.wire.json_answer import json_pieces

    return print_answer(list(json_pieces(tensors, torch.Tensor)))


DECODE_PATHS = (
    DecodePath("json, torch.tensor", (), _json_and_torch),
    DecodePath("FastAPI's default: pydantic, torch.tensor", ("pydantic",), _fastapi_and_torch),
    DecodePath("orjson, numpy.array", ("orjson",), _orjson_and_numpy),
    DecodePath("the service, any body", ("orjson",), _service_strict),
    DecodePath("the service, quick arrays", ("orjson", "numba"), _service_quick),
    DecodePath("the service, small bodies", ("orjson",), _service_small),
    DecodePath("the service, on the device", ("orjson", "triton", CUDA), _service_on_device),
)
ENCODE_PATHS = (
    EncodePath("json.dumps of lists", (), _json_dumps),
    EncodePath("orjson.dumps of lists", ("orjson",), _orjson_lists),
    EncodePath("the service", ("orjson",), _service_encoder),
    EncodePath("copy from the device, the service", ("orjson", CUDA), _copy_and_encode, _to_device),
    EncodePath("the service, on the device", ("orjson", "triton", CUDA), _print_on_device, _to_device),
)
"""The first of each is what the others are compared with: it needs nothing but Python and torch."""
