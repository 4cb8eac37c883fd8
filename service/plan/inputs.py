"""Owns the inputs of one plan, as callers name them."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import torch

from service.kernels.operands import PlanOperands
from service.spec import (
    EXPECTED_TOKENS,
    EXPECTED_TOKENS_VALID_LENS,
    EXTEND_SEQ_LENS,
    FULL_TO_SWA_INDEX_MAPPING,
    PREFIX_LENS,
    REQ_POOL_INDICES,
    REQ_TO_TOKEN,
    SWA_WINDOW_SIZE,
    TOKEN_OFFSET,
    VERIFY_CAPACITY,
    WRITE_REQ_CAPACITY,
    ScalarSpec,
    TensorSpec,
)

_NOT_MOVED: Mapping[int, torch.Tensor] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class PlanInputs:
    """One batch and its tables; fields, shapes and dtypes are those of ``service.spec.PLAN_INPUTS``.

    A capacity of None stands for its default. ``resident`` tables are together where plans are computed already, which
    need not be where the batch is. ``loc`` is where in a request the inputs stand.
    """

    req_pool_indices: torch.Tensor
    prefix_lens: torch.Tensor
    extend_seq_lens: torch.Tensor
    req_to_token: torch.Tensor
    swa_window_size: int = 0
    full_to_swa_index_mapping: torch.Tensor | None = None
    verify_capacity: int | None = None
    write_req_capacity: int | None = None
    req_to_verify_expected_tokens: torch.Tensor | None = None
    req_to_verify_expected_tokens_valid_lens: torch.Tensor | None = None
    kv_token_id_vs_position_offset: int = 0
    resident: bool = False
    loc: tuple[str, ...] = ()

    @property
    def bs(self) -> int:
        """How many requests the batch has, padding rows included."""
        return self.req_pool_indices.shape[0]

    @property
    def lut_length(self) -> int:
        """How many slots the look-up table translates; 0 without one."""
        return 0 if self.full_to_swa_index_mapping is None else self.full_to_swa_index_mapping.shape[0]

    @property
    def token_rows(self) -> int:
        """How many rows the token table has; 0 without one."""
        return 0 if self.req_to_verify_expected_tokens is None else self.req_to_verify_expected_tokens.shape[0]

    def scalars(self) -> list[tuple[object, ScalarSpec]]:
        """The integers, in input order; a capacity that is left to its default is not among them."""
        named: list[tuple[object, ScalarSpec]] = [
            (self.swa_window_size, SWA_WINDOW_SIZE),
            (self.verify_capacity, VERIFY_CAPACITY),
            (self.write_req_capacity, WRITE_REQ_CAPACITY),
            (self.kv_token_id_vs_position_offset, TOKEN_OFFSET),
        ]
        defaults = (VERIFY_CAPACITY, WRITE_REQ_CAPACITY)
        return [(value, spec) for value, spec in named if value is not None or spec not in defaults]

    def tensors(self) -> list[tuple[torch.Tensor, TensorSpec]]:
        """The tensors that take part, in input order. Valid lengths without a token table do not."""
        named: list[tuple[torch.Tensor | None, TensorSpec]] = [
            (self.req_pool_indices, REQ_POOL_INDICES),
            (self.prefix_lens, PREFIX_LENS),
            (self.extend_seq_lens, EXTEND_SEQ_LENS),
            (self.req_to_token, REQ_TO_TOKEN),
            (self.full_to_swa_index_mapping, FULL_TO_SWA_INDEX_MAPPING),
            (self.req_to_verify_expected_tokens, EXPECTED_TOKENS),
            (self._valid_lens_in_use(), EXPECTED_TOKENS_VALID_LENS),
        ]
        return [(tensor, spec) for tensor, spec in named if tensor is not None or spec.required]  # type: ignore[misc]

    def operands(self, verify_capacity: int, moved: Mapping[int, torch.Tensor] = _NOT_MOVED) -> PlanOperands:
        """The same tensors as a backend takes them, with the capacity that applies.

        A tensor whose ``id`` is in ``moved`` is replaced by what stands there.
        """
        tensors: tuple[Any, ...] = (
            self.req_pool_indices,
            self.prefix_lens,
            self.extend_seq_lens,
            self.req_to_token,
            self.full_to_swa_index_mapping,
            self.req_to_verify_expected_tokens,
            self._valid_lens_in_use(),
        )
        if moved:
            tensors = tuple(moved.get(id(tensor), tensor) for tensor in tensors)
        scalars: tuple[Any, ...] = (self.swa_window_size, self.kv_token_id_vs_position_offset, verify_capacity)
        return PlanOperands(*tensors, *scalars)

    def travelling(self) -> list[torch.Tensor]:
        """The tensors that have to be brought to the device: those of the batch, and tables unless they are there."""
        named: list[torch.Tensor | None] = [
            self.req_pool_indices,
            self.prefix_lens,
            self.extend_seq_lens,
            self._valid_lens_in_use(),
        ]
        if not self.resident:
            named += [self.req_to_token, self.full_to_swa_index_mapping, self.req_to_verify_expected_tokens]
        return [tensor for tensor in named if tensor is not None]

    def on_host(self) -> "PlanInputs":
        """The same inputs with every tensor on the CPU."""
        moved: dict[str, Any] = {spec.name: tensor.cpu() for tensor, spec in self.tensors()}
        return replace(self, **moved)

    def _valid_lens_in_use(self) -> torch.Tensor | None:
        if self.req_to_verify_expected_tokens is None:
            return None
        return self.req_to_verify_expected_tokens_valid_lens
