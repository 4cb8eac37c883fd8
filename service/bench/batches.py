"""Draws the batches that are measured: always the same ones, slots permuted, of any size and on any device."""

from dataclasses import dataclass, replace

import torch

from service.plan.inputs import PlanInputs

_SEED = 20
_LARGEST_TOKEN = 150_000


@dataclass(frozen=True, slots=True)
class BatchShape:
    """The size of a batch: its requests, one cached length each, and the table that they look up."""

    name: str
    prefix_lens: tuple[int, ...]
    rows: int
    cols: int
    extend_len: int = 1
    window: int = 0
    tokens: bool = False

    @property
    def bs(self) -> int:
        """How many requests the batch has."""
        return len(self.prefix_lens)

    @property
    def entries(self) -> int:
        """How many verify entries its plan has."""
        return sum(min(length, self.window) if self.window > 0 else length for length in self.prefix_lens)


def draw_batch(shape: BatchShape, device: torch.device | str = "cpu") -> PlanInputs:
    """A valid batch of that shape: no padding rows, every slot in the table once, rows in no order.

    A window comes with a look-up table of all slots, ``tokens`` with a token table whose every cell is trusted.
    """
    generator = torch.Generator(device=device).manual_seed(_SEED)

    def permuted(length: int, dtype: torch.dtype) -> torch.Tensor:
        return torch.randperm(length, generator=generator, dtype=dtype, device=device)

    size = (shape.rows, shape.cols)
    inputs = PlanInputs(
        req_pool_indices=1 + permuted(shape.bs, torch.int64) % (shape.rows - 1),
        prefix_lens=torch.tensor(shape.prefix_lens, dtype=torch.int64, device=device),
        extend_seq_lens=torch.full((shape.bs,), shape.extend_len, dtype=torch.int64, device=device),
        req_to_token=permuted(shape.rows * shape.cols, torch.int32).reshape(size),
        swa_window_size=shape.window,
        full_to_swa_index_mapping=permuted(shape.rows * shape.cols, torch.int64) if shape.window > 0 else None,
    )
    if not shape.tokens:
        return inputs
    return replace(
        inputs,
        req_to_verify_expected_tokens=torch.randint(
            _LARGEST_TOKEN, size, generator=generator, dtype=torch.int32, device=device
        ),
        req_to_verify_expected_tokens_valid_lens=torch.full_like(inputs.prefix_lens, shape.cols),
    )


def vector_fields(inputs: PlanInputs) -> dict[str, object]:
    """The per-request vectors and the window as a JSON body names them."""
    fields: dict[str, object] = {
        spec.name: tensor.tolist() for tensor, spec in inputs.tensors() if spec.axes == ("bs",)
    }
    return fields | ({"swa_window_size": inputs.swa_window_size} if inputs.swa_window_size else {})


def table_fields(inputs: PlanInputs) -> dict[str, object]:
    """The tables as a JSON body names them."""
    return {spec.name: tensor.tolist() for tensor, spec in inputs.tensors() if spec.axes != ("bs",)}
