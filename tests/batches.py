"""Random batches for the kernel tests: permuted slots, awkward sizes, garbage where nothing may look."""

import random
from dataclasses import dataclass

import torch

from service.plan.inputs import PlanInputs

GARBAGE = (-(2**63), -(2**63) + 1, -1, 2**31, 2**62, 2**63 - 1)


@dataclass(frozen=True, slots=True)
class Shape:
    """What kind of batch to draw."""

    bs: int
    cols: int = 40
    lut: bool = False
    window: int = 0
    tokens: bool = False
    token_offset: int = 0
    padding: float = 0.2


def draw_batch(shape: Shape, seed: int) -> PlanInputs:
    """A valid batch on the CPU: every slot, token and table entry differs from its index."""
    rng = random.Random(seed)  # noqa: S311
    torch.manual_seed(seed)
    rows = shape.bs + 3
    slots = torch.randperm(rows * shape.cols).reshape(rows, shape.cols).to(torch.int32)
    slots[torch.rand(rows, shape.cols) < 0.1] = -1
    indices, prefix, extend, valid = [], [], [], []
    for _ in range(shape.bs):
        padding = rng.random() < shape.padding
        indices.append(0 if padding else rng.randrange(1, rows))
        prefix.append(
            rng.choice(GARBAGE) if padding else rng.choice([0, 1, shape.cols, -5, rng.randint(0, shape.cols)])
        )
        extend.append(rng.choice(GARBAGE) if padding else rng.choice([0, 1, -3, 2**40, rng.randint(0, 9)]))
        valid.append(rng.choice(GARBAGE) if padding else rng.choice([-1, 0, shape.cols, rng.randint(0, shape.cols)]))
    lut = torch.randint(-(2**62), 2**62, (rows * shape.cols,)) if shape.lut else None
    tokens = torch.randint(-(2**31), 2**31, (rows, shape.cols)).to(torch.int32) if shape.tokens else None
    return PlanInputs(
        req_pool_indices=torch.tensor(indices, dtype=torch.int64),
        prefix_lens=torch.tensor(prefix, dtype=torch.int64),
        extend_seq_lens=torch.tensor(extend, dtype=torch.int64),
        req_to_token=slots,
        swa_window_size=shape.window,
        full_to_swa_index_mapping=lut,
        write_req_capacity=shape.bs + rng.choice([0, 1, 5]) or 1,
        req_to_verify_expected_tokens=tokens,
        req_to_verify_expected_tokens_valid_lens=torch.tensor(valid, dtype=torch.int64) if shape.tokens else None,
        kv_token_id_vs_position_offset=shape.token_offset,
    )
