"""Owns what a backend reads and writes: the operands of one plan and the buffers it fills."""

from typing import NamedTuple

import torch

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1
PADDING_ROW = 0
"""Row of `req_to_token` that marks an inactive request."""
NO_SLOT = -1
"""What stands where there is no slot: no predecessor, no seed."""
NO_TOKEN = -1
"""What stands where no token is expected."""


class PlanOperands(NamedTuple):
    """The tensors and integers that a plan is computed from: on one device, of the shapes in ``service.spec``."""

    req_pool_indices: torch.Tensor
    prefix_lens: torch.Tensor
    extend_seq_lens: torch.Tensor
    req_to_token: torch.Tensor
    full_to_swa_index_mapping: torch.Tensor | None
    req_to_verify_expected_tokens: torch.Tensor | None
    req_to_verify_expected_tokens_valid_lens: torch.Tensor | None
    swa_window_size: int
    kv_token_id_vs_position_offset: int
    verify_capacity: int

    @property
    def bs(self) -> int:
        """How many requests the batch has, padding rows included."""
        return self.req_pool_indices.shape[0]


class OffsetBuffers(NamedTuple):
    """What the offsets pass fills.

    ``verify_offsets`` [bs+1] int64, ``verify_num_valid`` [1] int32, ``verify_enable`` [1] int32,
    ``write_offsets`` [write_req_capacity+1] int64, ``write_seed_slot_indices`` [>= bs] int64,
    ``write_num_valid_reqs`` [1] int32, ``faults`` [2] int64 or None.
    """

    verify_offsets: torch.Tensor
    verify_num_valid: torch.Tensor
    verify_enable: torch.Tensor
    write_offsets: torch.Tensor
    write_seed_slot_indices: torch.Tensor
    write_num_valid_reqs: torch.Tensor
    faults: torch.Tensor | None
    """Where the first slot outside the look-up table is read, in plan order; None: nobody asks.

    Holds INT64_MAX twice before and, where there is no such slot, after. Element 0: twice the index of the entry,
    plus 1 when the slot is read as its predecessor. Element 1: the request whose seed it is.
    """


class EntryBuffers(NamedTuple):
    """What the entries pass fills, each [>= entries] int64; elements past the entries are left untouched."""

    verify_slot_indices: torch.Tensor
    verify_expected_tokens: torch.Tensor
    verify_expected_positions: torch.Tensor
    verify_prev_slot_indices: torch.Tensor


class ScatterOperands(NamedTuple):
    """Ragged rows and the table that takes them; ``start_positions`` None stands for all zeros."""

    flat_in: torch.Tensor
    offsets: torch.Tensor
    req_pool_indices: torch.Tensor
    start_positions: torch.Tensor | None
    pool_out: torch.Tensor
