"""``POST /plan`` as FastAPI's tutorial would have it: models in and out, tensors of lists, a vectorised plan.

A baseline of the benchmark: correct, idiomatic, and without anything that was found by measuring.
"""

import os
from dataclasses import dataclass

import torch
from fastapi import FastAPI, HTTPException
from pydantic import BaseModel


class PlanRequest(BaseModel):
    """A batch and its tables."""

    req_pool_indices: list[int]
    prefix_lens: list[int]
    extend_seq_lens: list[int]
    req_to_token: list[list[int]]
    swa_window_size: int = 0
    full_to_swa_index_mapping: list[int] | None = None
    verify_capacity: int | None = None
    write_req_capacity: int | None = None
    req_to_verify_expected_tokens: list[list[int]] | None = None
    req_to_verify_expected_tokens_valid_lens: list[int] | None = None
    kv_token_id_vs_position_offset: int = 0


class PlanResponse(BaseModel):
    """The plan of a batch."""

    verify_offsets: list[int]
    verify_total: int
    verify_num_valid: int
    verify_enable: bool
    verify_slot_indices: list[int]
    verify_expected_tokens: list[int]
    verify_expected_positions: list[int]
    verify_prev_slot_indices: list[int]
    write_offsets: list[int]
    write_seed_slot_indices: list[int]
    write_num_valid_reqs: int


@dataclass(frozen=True, slots=True)
class Batch:
    """A request's lists as tensors on the device; lens are 0 for padding rows."""

    rows: torch.Tensor
    prefix: torch.Tensor
    extend: torch.Tensor
    table: torch.Tensor
    lut: torch.Tensor | None
    tokens: torch.Tensor | None
    valid_lens: torch.Tensor | None
    token_offset: int

    def slots(self, rows: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """Slots at positions of table rows, through the look-up table if there is one; -1 before position 0."""
        found = self.table[rows, positions.clamp(min=0)]
        if self.lut is not None:
            found = torch.where(found < 0, found, self.lut[found.clamp(min=0)])
        return torch.where(positions < 0, -1, found)

    def expected_tokens(self, owners: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """Token ids at positions of the owners' rows; -1 where none can be trusted."""
        if self.tokens is None or self.valid_lens is None:
            return torch.full_like(positions, -1)
        at = positions + self.token_offset
        trusted = (at >= 0) & (at < self.valid_lens[owners])
        found = self.tokens[self.rows[owners].where(trusted, 0), at.where(trusted, 0)]
        return torch.where(trusted, found, -1)


def create_app() -> FastAPI:
    """The application, on the device that KV_PLAN_DEVICE names; auto is a GPU if there is one."""
    name = os.environ.get("KV_PLAN_DEVICE", "auto")
    device = torch.device(("cuda" if torch.cuda.is_available() else "cpu") if name == "auto" else name)
    torch.set_num_threads(1)  # threads of one small operation wait for each other longer than they work
    app = FastAPI()

    # Not a plain function: a hop to a thread costs small batches more than the event loop loses to large ones.
    @app.post("/plan")
    async def plan(request: PlanRequest) -> PlanResponse:
        try:
            return compute(request, device)
        except (IndexError, RuntimeError) as error:
            raise HTTPException(422, str(error)) from error

    return app


def compute(request: PlanRequest, device: torch.device) -> PlanResponse:
    """The plan of a request."""
    batch = _on_device(request, device)
    bs = len(request.req_pool_indices)
    window = request.swa_window_size
    counts = batch.prefix.clamp(max=window) if window > 0 else batch.prefix
    verify_offsets = _offsets(counts, bs)
    total = int(verify_offsets[-1])
    capacity = max(total, 1) if request.verify_capacity is None else request.verify_capacity
    enabled = total <= capacity

    used = counts if enabled else torch.zeros_like(counts)
    owners = torch.repeat_interleave(torch.arange(bs, device=device), used)
    first = batch.prefix - counts
    positions = torch.arange(len(owners), device=device) - verify_offsets[owners] + first[owners]
    seeded = (batch.extend > 0) & (batch.prefix > 0)
    seeds = torch.full_like(batch.rows, -1)
    seeds[seeded] = batch.slots(batch.rows[seeded], batch.prefix[seeded] - 1).long()
    write_capacity = max(bs, 1) if request.write_req_capacity is None else request.write_req_capacity
    return PlanResponse(
        verify_offsets=verify_offsets.tolist(),
        verify_total=total,
        verify_num_valid=min(total, capacity),
        verify_enable=enabled,
        verify_slot_indices=batch.slots(batch.rows[owners], positions).tolist(),
        verify_expected_tokens=batch.expected_tokens(owners, positions).tolist(),
        verify_expected_positions=positions.tolist(),
        verify_prev_slot_indices=batch.slots(batch.rows[owners], positions - 1).tolist(),
        write_offsets=_offsets(batch.extend, write_capacity).tolist(),
        write_seed_slot_indices=seeds.tolist(),
        write_num_valid_reqs=bs,
    )


def _on_device(request: PlanRequest, device: torch.device) -> Batch:
    def tensor(values: object, dtype: torch.dtype = torch.int64) -> torch.Tensor:
        return torch.tensor(values, dtype=dtype, device=device)

    rows = tensor(request.req_pool_indices)
    lut, tokens = request.full_to_swa_index_mapping, request.req_to_verify_expected_tokens
    valid_lens = request.req_to_verify_expected_tokens_valid_lens
    return Batch(
        rows=rows,
        prefix=tensor(request.prefix_lens).clamp(min=0).where(rows != 0, 0),
        extend=tensor(request.extend_seq_lens).clamp(min=0).where(rows != 0, 0),
        table=tensor(request.req_to_token, torch.int32),
        lut=None if lut is None else tensor(lut),
        tokens=None if tokens is None else tensor(tokens, torch.int32),
        valid_lens=None if valid_lens is None else tensor(valid_lens),
        token_offset=request.kv_token_id_vs_position_offset,
    )


def _offsets(lens: torch.Tensor, capacity: int) -> torch.Tensor:
    """Exclusive prefix sums, the total at [len(lens)] and 0 beyond it."""
    offsets = torch.zeros(capacity + 1, dtype=torch.int64, device=lens.device)
    offsets[1 : len(lens) + 1] = lens.cumsum(0)
    return offsets
