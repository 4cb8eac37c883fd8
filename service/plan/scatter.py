"""The scatter in process: ragged rows into a table, judged as a whole before anything is written."""

import torch

from service.errors import refusal
from service.kernels.backend import backend_for
from service.kernels.operands import ScatterOperands
from service.plan.require import NamedTensor, refuse_first, refuse_repeated, require_contiguous, require_same_device

_VECTORS = ("flat_in", "offsets", "req_pool_indices", "start_positions")


def launch_scatter_req_token_ids_kernel(
    *,
    flat_in: torch.Tensor,
    offsets: torch.Tensor,
    req_pool_indices: torch.Tensor,
    pool_out: torch.Tensor,
    start_positions: torch.Tensor | None = None,
) -> None:
    """``pool_out`` with segment r, ``flat_in[offsets[r]:offsets[r+1]]``, stored into row ``req_pool_indices[r]``.

    ``flat_in`` [n], ``offsets`` [bs+1], ``req_pool_indices`` [bs] and ``start_positions`` [bs] (None: all 0) are
    int64, ``pool_out`` [rows, cols] is int32 and changed in place; of a token the low 32 bits are kept. A segment is
    cut at the row's end; cells outside the segments stay as they are.

    On a CUDA device this only launches, values are not judged, and what lies outside the table is left out.
    Raises TypeError for a wrong dtype, ValueError for anything else, and then writes nothing.
    """
    operands = ScatterOperands(flat_in, offsets, req_pool_indices, start_positions, pool_out)
    validate_scatter_form(operands)
    require_same_device(flat_in, "flat_in", _named(operands))
    if pool_out.device.type == "cpu":
        validate_scatter_values(operands, "pool_out")
    backend_for(pool_out.device).launch_scatter(operands)


def scatter_req_token_ids_torch_reference(
    *,
    flat_in: torch.Tensor,
    offsets: torch.Tensor,
    req_pool_indices: torch.Tensor,
    pool_out: torch.Tensor,
    start_positions: torch.Tensor | None = None,
) -> None:
    """The same from a slow reference, one segment at a time, on any device."""
    operands = ScatterOperands(flat_in, offsets, req_pool_indices, start_positions, pool_out)
    validate_scatter_form(operands)
    require_same_device(flat_in, "flat_in", _named(operands))
    on_host = ScatterOperands(
        flat_in.cpu(),
        offsets.cpu(),
        req_pool_indices.cpu(),
        None if start_positions is None else start_positions.cpu(),
        pool_out,
    )
    validate_scatter_values(on_host, "pool_out")
    bounds = offsets.tolist()
    starts = [0] * len(req_pool_indices) if start_positions is None else start_positions.tolist()
    for r, row in enumerate(req_pool_indices.tolist()):
        room = pool_out.shape[1] - starts[r]
        segment = flat_in[bounds[r] : bounds[r + 1]][:room]
        pool_out[row, starts[r] : starts[r] + len(segment)] = segment.to(torch.int32)


def validate_scatter_form(operands: ScatterOperands) -> None:
    """Accept operands whose memory layout, dtypes and shapes are right. Reads no element."""
    named = _named(operands)
    for tensor, name in named:
        require_contiguous(tensor, name)
    for tensor, name in named:
        dtype = torch.int64 if name in _VECTORS else torch.int32
        if tensor.dtype != dtype:
            raise refusal("scatter-wrong-dtype", name=name, want=str(dtype).split(".")[1], have=tensor.dtype)
    for tensor, name in named:
        rank = 1 if name in _VECTORS else 2
        if tensor.ndim != rank:
            raise refusal("scatter-wrong-rank", name=name, rank=rank, shape=tuple(tensor.shape))
    bs = operands.req_pool_indices.shape[0]
    _require_scatter_len(operands.offsets, "offsets", bs + 1, "bs+1")
    if operands.start_positions is not None:
        _require_scatter_len(operands.start_positions, "start_positions", bs, "bs")


def _named(operands: ScatterOperands) -> list[NamedTensor]:
    tensors = [
        (operands.flat_in, "flat_in"),
        (operands.offsets, "offsets"),
        (operands.req_pool_indices, "req_pool_indices"),
        (operands.start_positions, "start_positions"),
        (operands.pool_out, "pool_out"),
    ]
    return [(tensor, name) for tensor, name in tensors if tensor is not None]


def _require_scatter_len(tensor: torch.Tensor, name: str, want: int, want_name: str) -> None:
    if tensor.shape[0] != want:
        raise refusal("scatter-offsets-length", name=name, have=tensor.shape[0], want=want, want_name=want_name)


def validate_scatter_values(operands: ScatterOperands, pool: str) -> None:
    """Accept operands of good form whose offsets cut the tokens and whose rows and starts exist, each row once.

    The vectors are on the CPU; of the table, called ``pool``, only the shape is looked at.
    """
    offsets, n = operands.offsets.numpy(), operands.flat_in.shape[0]
    if offsets[0] != 0 or offsets[-1] != n or (offsets[1:] < offsets[:-1]).any():
        raise refusal("scatter-offsets-invalid", n=n)
    rows, (table_rows, columns) = operands.req_pool_indices.numpy(), operands.pool_out.shape
    outside = (rows < 0) | (rows >= table_rows)
    refuse_first(outside, "scatter-row-outside-pool", rows, pool=pool, rows=table_rows)
    refuse_repeated(rows, "scatter-duplicate-row")
    if operands.start_positions is not None:
        starts = operands.start_positions.numpy()
        outside = (starts < 0) | (starts > columns)
        refuse_first(outside, "scatter-start-outside-pool", starts, pool=pool, columns=columns)
