"""The only validator of plans: the contract's rules in the contract's order, before a backend is chosen."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from service.errors import refusal
from service.kernels.host_batch import Flags, HostBatch, Ints, largest, smallest
from service.plan.inputs import PlanInputs
from service.plan.require import (
    refuse_first,
    require_contiguous,
    require_dtype,
    require_integer,
    require_len,
    require_min_len,
    require_rank,
    require_same_device,
    require_tensor,
)
from service.spec import FULL_TO_SWA_INDEX_MAPPING, REQ_POOL_INDICES, TensorSpec

DEFAULT_CALLER = "launch_canary_plan_kernels"
_FAR = 2**62
"""Lengths are cut here before an int32 is added; no table has so many columns."""


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
    tensors = inputs.tensors()
    named = [(tensor, spec.name) for tensor, spec in tensors] + [(buffer.tensor, buffer.name) for buffer in buffers]
    for tensor, name in named:
        require_tensor(tensor, name)
    for value, scalar in inputs.scalars():
        require_integer(value, scalar.name, scalar.dtype)
    _validate_presence(inputs, caller)
    _validate_capacities(inputs, caller, buffers)
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
    if inputs.resident:  # the tables are where the plan is computed, the batch is not yet
        named = [(tensor, spec.name) for tensor, spec in tensors if spec.axes == REQ_POOL_INDICES.axes]
    require_same_device(inputs.req_pool_indices, REQ_POOL_INDICES.name, named)


def validate_values(inputs: PlanInputs, batch: HostBatch) -> None:
    """Accept inputs of good form, on the CPU, whose elements point inside the tables and add up within int64.

    ``batch`` is what ``read_batch`` makes of the same inputs. Elements of inactive rows are not judged.
    Raises ``InvalidInput`` (a ValueError).
    """
    if not _is_plainly_right(inputs, batch):
        _validate_each(inputs, batch)


def _is_plainly_right(inputs: PlanInputs, batch: HostBatch) -> bool:
    """Whether the extremes alone show that no rule is broken; they may belong to rows that are not judged."""
    if not inputs.bs:
        return True
    table_rows, columns = inputs.req_to_token.shape
    right = smallest(batch.rows) >= 0 and largest(batch.prefix_lens) <= columns and smallest(batch.write_offsets) >= 0
    tokens, lens = inputs.req_to_verify_expected_tokens, inputs.req_to_verify_expected_tokens_valid_lens
    if tokens is not None and lens is not None:
        table_rows, columns = min(table_rows, tokens.shape[0]), tokens.shape[1]
        right = right and largest(lens.numpy()) <= columns
    return right and largest(batch.rows) < table_rows


def _validate_each(inputs: PlanInputs, batch: HostBatch) -> None:
    _validate_rows(inputs, batch)
    columns = inputs.req_to_token.shape[1]
    refuse_first(batch.prefix_lens > columns, "prefix-exceeds-columns", batch.prefix_lens, columns=columns)
    if (batch.write_offsets < 0).any():
        raise refusal("extend-sum-overflow")
    tokens, lens = inputs.req_to_verify_expected_tokens, inputs.req_to_verify_expected_tokens_valid_lens
    if tokens is not None and lens is not None:
        valid_lens, columns = lens.numpy(), tokens.shape[1]
        refuse_first(batch.active & (valid_lens > columns), "valid-len-exceeds-columns", valid_lens, columns=columns)


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


def _validate_rows(inputs: PlanInputs, batch: HostBatch) -> None:
    """By index first: of two bad rows the earlier one is named, whichever table it misses."""
    rows, table_rows = batch.rows, inputs.req_to_token.shape[0]
    outside = batch.active & ((rows < 0) | (rows >= table_rows))
    bad = outside
    lens = inputs.req_to_verify_expected_tokens_valid_lens
    if inputs.req_to_verify_expected_tokens is not None and lens is not None:
        looked_up = _looks_tokens_up(batch, lens.numpy(), inputs.kv_token_id_vs_position_offset)
        bad = outside | (looked_up & (rows >= inputs.token_rows))
    if not bad.any():
        return
    index = int(bad.argmax())
    if outside[index]:
        raise refusal("row-outside-table", index=index, value=int(rows[index]), rows=table_rows)
    raise refusal("row-outside-expected-tokens", index=index, value=int(rows[index]), rows=inputs.token_rows)


def _looks_tokens_up(batch: HostBatch, valid_lens: Ints, shift: int) -> Flags:
    """Which requests have an entry whose shifted position lies below their valid length."""
    first, end = np.minimum(batch.first_positions, _FAR), np.minimum(batch.prefix_lens, _FAR)
    looked_up: Flags = batch.active & (np.maximum(first + shift, 0) < np.minimum(end + shift, valid_lens))
    return looked_up
