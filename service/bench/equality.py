"""Decides whether two plans are the same. No number is told of an answer that differs."""

from collections.abc import Mapping
from dataclasses import asdict

from service.plan.inputs import PlanInputs
from service.plan.reference import plan_reference

_SHOWN_CHARACTERS = 60


class DifferentAnswer(RuntimeError):
    """An answer that is not the reference's; the message names who gave it, the field, the place and both values."""


def expected_plan(inputs: PlanInputs) -> dict[str, object]:
    """What the slow reference answers to a batch, by the names that the service uses."""
    plan = plan_reference(inputs)
    return asdict(plan) | {"verify_total": plan.verify_offsets[-1], "write_num_valid_reqs": inputs.bs}


def require_same_plan(who: str, answer: Mapping[str, object], expected: Mapping[str, object]) -> None:
    """Accept an answer that has every expected field with the expected value, or raise ``DifferentAnswer``.

    Fields that are not expected, such as the device, are not judged.
    """
    for name, want in expected.items():
        require_same(f"{who}: {name}", answer.get(name), want)


def require_same(what: str, have: object, want: object) -> None:
    """Accept a value that equals ``want``, or raise ``DifferentAnswer`` with the first place where they differ.

    >>> require_same("echo: verify_offsets", [0, 5], [0, 3])
    Traceback (most recent call last):
    service.bench.equality.DifferentAnswer: echo: verify_offsets[1] is 5, not 3
    """
    if type(have) is type(want) and have == want:
        return
    if not isinstance(have, list) or not isinstance(want, list):
        raise DifferentAnswer(f"{what} is {_shown(have)}, not {_shown(want)}")
    if len(have) != len(want):
        raise DifferentAnswer(f"{what} has {len(have)} elements, not {len(want)}")
    i = next(i for i, (one, other) in enumerate(zip(have, want, strict=True)) if one != other)
    require_same(f"{what}[{i}]", have[i], want[i])


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "…"
