"""The only validator of plans: the contract's rules in the contract's order, before a backend is chosen."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from service.errors import refusal
from service.plan.inputs import PlanInputs
from service.plan.require import (
    require_contiguous,
    require_dtype,
    require_fits,
    require_len,
    require_min_len,
    require_rank,
    require_same_device,
)
from service.spec import FULL_TO_SWA_INDEX_MAPPING, REQ_POOL_INDICES, SWA_WINDOW_SIZE, TOKEN_OFFSET, TensorSpec

DEFAULT_CALLER = "launch_canary_plan_kernels"
_FAR = 2**62
"""Lengths are cut here before an int32 is added; no table has so many columns."""

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Buffer:
    """A vector that the caller gave to be filled: what it is called, and the dtype and length it must have."""

    tensor: torch.Tensor
    name: str
    dtype: torch.dtype
    length: int


def validate_form(inputs: PlanInputs, *, caller: str = DEFAULT_CALLER, buffers: Sequence[Buffer] = ()) -> None:
    """Accept inputs whose presence, capacities, memory layout, dtypes, shapes and devices are right.

    Reads no element, so it never waits for a device. ``caller`` is named in the messages about presence.
    ``buffers``, the entry buffers first, are judged by the same rules after the inputs.
    Raises ``InvalidInput`` (a ValueError).
    """
    require_fits(inputs.swa_window_size, SWA_WINDOW_SIZE.name, SWA_WINDOW_SIZE.dtype)
    require_fits(inputs.kv_token_id_vs_position_offset, TOKEN_OFFSET.name, TOKEN_OFFSET.dtype)
    _validate_presence(inputs, caller)
    _validate_capacities(inputs, caller, buffers)
    tensors = inputs.tensors()
    named = [(tensor, spec.name) for tensor, spec in tensors] + [(buffer.tensor, buffer.name) for buffer in buffers]
    for tensor, name in named:
        require_contiguous(tensor, name)
    for tensor, spec in tensors:
        require_dtype(tensor, spec.name, getattr(torch, spec.dtype))
    for buffer in buffers:
        require_dtype(buffer.tensor, buffer.name, buffer.dtype)
    for tensor, spec in tensors:
        _validate_shape(tensor, spec, inputs)
    for buffer in buffers:
        require_len(buffer.tensor, buffer.name, buffer.length)
    if inputs.write_req_capacity is not None and inputs.bs > inputs.write_req_capacity:
        raise refusal("batch-exceeds-write-req-capacity", bs=inputs.bs, capacity=inputs.write_req_capacity)
    require_same_device(inputs.req_pool_indices, REQ_POOL_INDICES.name, named)


def validate_values(inputs: PlanInputs) -> None:
    """Accept inputs of good form, on the CPU, whose elements point inside the tables and add up within int64.

    Elements of inactive rows are not judged. Raises ``InvalidInput`` (a ValueError).
    """
    rows = inputs.req_pool_indices.numpy()
    active = rows != 0
    _validate_rows(inputs, rows, active)
    prefix = inputs.prefix_lens.numpy()
    columns = inputs.req_to_token.shape[1]
    _refuse_first(active & (prefix > columns), "prefix-exceeds-columns", prefix, columns=columns)
    extend = np.where(active, np.maximum(inputs.extend_seq_lens.numpy(), 0), 0)
    # Halves cannot overflow, so the sum is exact.
    if (int((extend >> 32).sum()) << 32) + int((extend & 0xFFFFFFFF).sum()) > 2**63 - 1:
        raise refusal("extend-sum-overflow")
    tokens, lens = inputs.req_to_verify_expected_tokens, inputs.req_to_verify_expected_tokens_valid_lens
    if tokens is not None and lens is not None:
        valid_lens, columns = lens.numpy(), tokens.shape[1]
        _refuse_first(active & (valid_lens > columns), "valid-len-exceeds-columns", valid_lens, columns=columns)


def _validate_presence(inputs: PlanInputs, caller: str) -> None:
    if inputs.swa_window_size > 0 and inputs.full_to_swa_index_mapping is None:
        raise refusal("window-requires-lut", caller=caller)
    if inputs.req_to_verify_expected_tokens is not None and inputs.req_to_verify_expected_tokens_valid_lens is None:
        raise refusal("expected-tokens-require-valid-lens", caller=caller)


def _validate_capacities(inputs: PlanInputs, caller: str, buffers: Sequence[Buffer]) -> None:
    capacity = inputs.verify_capacity
    if capacity is not None and capacity <= 0:
        raise refusal("verify-capacity-not-positive", value=capacity)
    if inputs.write_req_capacity is not None and inputs.write_req_capacity <= 0:
        raise refusal("write-req-capacity-not-positive", value=inputs.write_req_capacity)
    if buffers and buffers[0].tensor.numel() != capacity:
        raise refusal("verify-capacity-mismatch", caller=caller, value=capacity, have=buffers[0].tensor.numel())


def _validate_shape(tensor: torch.Tensor, spec: TensorSpec, inputs: PlanInputs) -> None:
    if spec is REQ_POOL_INDICES or spec.rank == 2:
        require_rank(tensor, spec.name, spec.rank)
    elif spec is FULL_TO_SWA_INDEX_MAPPING:
        require_min_len(tensor, spec.name, 1)
    else:
        require_len(tensor, spec.name, inputs.bs)


def _validate_rows(inputs: PlanInputs, rows: Ints, active: Flags) -> None:
    """By index first: of two bad rows the earlier one is named, whichever table it misses."""
    table_rows = inputs.req_to_token.shape[0]
    outside = active & ((rows < 0) | (rows >= table_rows))
    bad = outside | (active & (rows >= inputs.token_rows) & _looks_tokens_up(inputs))
    if not bad.any():
        return
    index = int(bad.argmax())
    if outside[index]:
        raise refusal("row-outside-table", index=index, value=int(rows[index]), rows=table_rows)
    raise refusal("row-outside-expected-tokens", index=index, value=int(rows[index]), rows=inputs.token_rows)


def _looks_tokens_up(inputs: PlanInputs) -> Flags:
    """Which requests have an entry whose shifted position lies below their valid length."""
    lens = inputs.req_to_verify_expected_tokens_valid_lens
    if lens is None or inputs.req_to_verify_expected_tokens is None:
        return np.zeros(inputs.bs, np.bool_)
    prefix = np.clip(inputs.prefix_lens.numpy(), 0, _FAR)
    window, shift = inputs.swa_window_size, inputs.kv_token_id_vs_position_offset
    first = np.maximum(prefix - window, 0) if window > 0 else np.zeros_like(prefix)
    looked_up: Flags = np.maximum(first + shift, 0) < np.minimum(prefix + shift, lens.numpy())
    return looked_up


def _refuse_first(bad: Flags, code: str, values: Ints, **fields: int) -> None:
    if bad.any():
        index = int(bad.argmax())
        raise refusal(code, index=index, value=int(values[index]), **fields)
