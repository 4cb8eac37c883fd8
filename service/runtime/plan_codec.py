"""Between the planner and the wire: a plan becomes the fields of an answer."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson
import torch

from service.plan.planner import Plan
from service.wire.json_answer import encode_json, json_pieces

Piece = bytes | torch.Tensor
"""Part of an answer: text, or an array that is still on the device."""


def plan_fields(plan: Plan[Any]) -> dict[str, object]:
    """What a plan answers, by the names and in the order of ``service.spec.PLAN_OUTPUTS``, device and backend aside."""
    sizes, entries = plan.sizes, plan.entries
    fields: dict[str, object] = {
        "verify_offsets": plan.verify_offsets,
        "verify_total": sizes.verify_total,
        "verify_num_valid": min(sizes.verify_total, sizes.verify_capacity),
        "verify_enable": sizes.enabled,
    }
    if entries is not None:
        fields["verify_slot_indices"] = entries.verify_slot_indices
        fields["verify_expected_tokens"] = entries.verify_expected_tokens
        fields["verify_expected_positions"] = entries.verify_expected_positions
        fields["verify_prev_slot_indices"] = entries.verify_prev_slot_indices
    fields["write_offsets"] = plan.write_offsets
    fields["write_seed_slot_indices"] = plan.write_seed_slot_indices
    fields["write_num_valid_reqs"] = sizes.bs
    return fields


def encode_plan(plan: Plan[Any], device: str, backend: str) -> bytes:
    """The JSON answer of a plan that ``backend`` computed on ``device``."""
    return encode_json(plan_fields(plan) | {"device": device, "backend": backend})


def answer_pieces(
    plans: Sequence[Mapping[str, object]], groups: Sequence[str], signed: Mapping[str, object]
) -> Iterator[Piece]:
    """The answer of the plan, or of one a group if there are ``groups``; behind all of it what is ``signed``."""
    if not groups:
        yield from json_pieces({**plans[0], **signed}, torch.Tensor)
        return
    separator = b'{"groups":{'
    for name, plan in zip(groups, plans, strict=True):
        yield separator + orjson.dumps(name) + b":"
        yield from json_pieces(plan, torch.Tensor)
        separator = b","
    yield b"}," + encode_json(signed)[1:]
