"""A quick yes to inputs, and buffers, of good form, one look at each. It words nothing: whatever it does not accept,
``validate_form`` judges, and may well accept.
"""

from collections.abc import Sequence

import torch

from service.plan.inputs import PlanInputs
from service.spec import INTEGER_RANGE

_SMALLEST, _LARGEST = INTEGER_RANGE["int64"]


def has_plain_form(
    inputs: PlanInputs,
    columns: Sequence[torch.Tensor],
    counts: Sequence[torch.Tensor],
    write_offsets: torch.Tensor,
    seeds: torch.Tensor,
) -> bool:
    """Whether inputs, both capacities given, and the buffers of their plan surely break no rule of their form.

    ``columns`` [verify_capacity] int64, ``counts`` [1] int32, the others int64 by request.
    """
    capacity, requests = inputs.verify_capacity, inputs.write_req_capacity
    if capacity is None or requests is None or not has_plain_inputs(inputs):
        return False
    device = inputs.req_pool_indices.device
    return (
        _are(columns, torch.int64, (capacity,), device)
        and _are(counts, torch.int32, (1,), device)
        and _are((write_offsets,), torch.int64, (requests + 1,), device)
        and _are((seeds,), torch.int64, (requests,), device)
    )


def has_plain_inputs(inputs: PlanInputs) -> bool:
    """Whether inputs surely break no rule of their form."""
    batch = inputs.req_pool_indices
    if type(batch) is not torch.Tensor:
        return False
    shape, device = batch.shape, batch.device
    return (
        _integers_fit(inputs)
        and _optional_inputs_are_complete(inputs)
        and _is_room_for(inputs.verify_capacity, 1)
        and len(shape) == 1
        and _is_room_for(inputs.write_req_capacity, max(shape[0], 1))
        and _are(_vectors(inputs), torch.int64, shape, device)
        and _tables_fit(inputs, inputs.req_to_token.device if inputs.resident else device)
    )


def _is_room_for(capacity: object, least: int) -> bool:
    return capacity is None or (type(capacity) is int and least <= capacity <= _LARGEST)


def _integers_fit(inputs: PlanInputs) -> bool:
    window, offset = inputs.swa_window_size, inputs.kv_token_id_vs_position_offset
    return (
        type(window) is int and _SMALLEST <= window <= _LARGEST and type(offset) is int and -(2**31) <= offset < 2**31
    )


def _optional_inputs_are_complete(inputs: PlanInputs) -> bool:
    """A look-up table for a window, valid lens for a token table."""
    return (inputs.swa_window_size <= 0 or inputs.full_to_swa_index_mapping is not None) and (
        inputs.req_to_verify_expected_tokens is None or inputs.req_to_verify_expected_tokens_valid_lens is not None
    )


def _vectors(inputs: PlanInputs) -> Sequence[torch.Tensor]:
    vectors = (inputs.req_pool_indices, inputs.prefix_lens, inputs.extend_seq_lens)
    lens = inputs.req_to_verify_expected_tokens_valid_lens
    return vectors if inputs.req_to_verify_expected_tokens is None or lens is None else (*vectors, lens)


def _tables_fit(inputs: PlanInputs, device: torch.device) -> bool:
    """Each of two axes; the look-up table of one that is not empty."""
    lut, tokens = inputs.full_to_swa_index_mapping, inputs.req_to_verify_expected_tokens
    tables = (inputs.req_to_token,) if tokens is None else (inputs.req_to_token, tokens)
    for table in tables:
        if type(table) is not torch.Tensor or table.ndim != 2 or not _are((table,), torch.int32, table.shape, device):
            return False
    return lut is None or (
        type(lut) is torch.Tensor
        and lut.ndim == 1
        and lut.shape[0] > 0
        and _are((lut,), torch.int64, lut.shape, device)
    )


def _are(tensors: Sequence[torch.Tensor], dtype: torch.dtype, shape: Sequence[int], device: torch.device) -> bool:
    plain = torch.Tensor
    try:
        for tensor in tensors:
            if (
                type(tensor) is not plain
                or tensor.dtype is not dtype
                or tensor.shape != shape
                or tensor.device != device
                or not tensor.is_contiguous()
            ):
                return False
    except RuntimeError:  # sparse: it has no strides
        return False
    return True
