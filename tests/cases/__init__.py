"""Input and output cases computed with the original planner, and how to read them."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from service.plan.inputs import PlanInputs
from service.spec import PLAN_INPUTS, TensorSpec

_FOLDER = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Case:
    """One line of a case file."""

    id: str
    request: dict[str, Any]
    response: dict[str, Any]
    status: int
    detail: str


def load_cases(kind: str) -> list[Case]:
    """The cases of one file: ``plan``, ``error`` or ``scatter``."""
    lines = (_FOLDER / f"{kind}_cases.jsonl").read_text(encoding="utf-8").splitlines()
    return [_case(json.loads(line)) for line in lines]


def inputs_of(request: dict[str, Any]) -> PlanInputs:
    """The inputs that a well-formed JSON request describes, made with ``torch.tensor`` alone."""
    fields: dict[str, Any] = {}
    for spec in PLAN_INPUTS:
        value = request.get(spec.name)
        if value is None:
            continue
        if isinstance(spec, TensorSpec):
            tensor = torch.tensor(value, dtype=getattr(torch, spec.dtype))
            fields[spec.name] = tensor.reshape(0, 0) if value == [] and spec.rank == 2 else tensor
        else:
            fields[spec.name] = value
    return PlanInputs(**fields)


def _case(line: dict[str, Any]) -> Case:
    return Case(line["id"], line["request"], line.get("response", {}), line.get("status", 200), line.get("detail", ""))
