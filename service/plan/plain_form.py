"""A quick yes to inputs and buffers of good form, one look at each. It words nothing: whatever it does not accept,
``validate_form`` judges, and may well accept.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from service.plan.inputs import PlanInputs
from service.spec import INTEGER_RANGE


@dataclass(frozen=True, slots=True)
class PlanBuffers:
    """The caller's buffers: ``columns`` [verify_capacity] int64, ``counts`` [1] int32, the others int64 by request."""

    columns: Sequence[torch.Tensor]
    counts: Sequence[torch.Tensor]
    write_offsets: torch.Tensor
    seeds: torch.Tensor


def has_plain_form(inputs: PlanInputs, buffers: PlanBuffers) -> bool:
    """Whether inputs, both capacities given, and the buffers of their plan surely break no rule of their form."""
    batch, capacity, requests = inputs.req_pool_indices, inputs.verify_capacity, inputs.write_req_capacity
    if (
        type(batch) is not torch.Tensor
        or not _fits(capacity, "int64", 1)
        or not _fits(requests, "int64", 1)
        or not _fits(inputs.swa_window_size, "int64")
        or not _fits(inputs.kv_token_id_vs_position_offset, "int32")
    ):
        return False
    shape, device = batch.shape, batch.device
    return (
        len(shape) == 1
        and shape[0] <= requests  # type: ignore[operator]  # an int, as fits
        and _are((batch, inputs.prefix_lens, inputs.extend_seq_lens), torch.int64, shape, device)
        and _is_table(inputs.req_to_token, device)
        and _look_up_fits(inputs, device)
        and _tokens_fit(inputs, shape, device)
        and _are(buffers.columns, torch.int64, (capacity,), device)
        and _are(buffers.counts, torch.int32, (1,), device)
        and _are((buffers.write_offsets,), torch.int64, (requests + 1,), device)  # type: ignore[operator]
        and _are((buffers.seeds,), torch.int64, (requests,), device)
    )


def _look_up_fits(inputs: PlanInputs, device: torch.device) -> bool:
    lut = inputs.full_to_swa_index_mapping
    if lut is None:
        return inputs.swa_window_size <= 0
    return type(lut) is torch.Tensor and _are((lut,), torch.int64, (max(lut.numel(), 1),), device)


def _tokens_fit(inputs: PlanInputs, shape: torch.Size, device: torch.device) -> bool:
    tokens, lens = inputs.req_to_verify_expected_tokens, inputs.req_to_verify_expected_tokens_valid_lens
    if tokens is None:
        return True
    return lens is not None and _is_table(tokens, device) and _are((lens,), torch.int64, shape, device)


def _fits(value: object, dtype: str, smallest: int | None = None) -> bool:
    if type(value) is not int:
        return False
    low, high = INTEGER_RANGE[dtype]  # type: ignore[index]
    return (low if smallest is None else smallest) <= value <= high


def _is_table(tensor: torch.Tensor, device: torch.device) -> bool:
    return type(tensor) is torch.Tensor and tensor.ndim == 2 and _are((tensor,), torch.int32, tensor.shape, device)


def _are(
    tensors: Sequence[torch.Tensor], dtype: torch.dtype, shape: Sequence[int | None], device: torch.device
) -> bool:
    for tensor in tensors:
        if (
            type(tensor) is not torch.Tensor
            or tensor.dtype is not dtype
            or tensor.shape != shape
            or tensor.device != device
            or tensor.layout is not torch.strided
            or not tensor.is_contiguous()
        ):
            return False
    return True
