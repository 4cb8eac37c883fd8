"""Answers that are printed on the device are those of the encoder on the host, to the byte."""

import json
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from service.runtime.plan_codec import answer_pieces
from service.wire.json_answer import encode_json

pytestmark = pytest.mark.triton


def printed(plans: list[dict[str, Any]], groups: tuple[str, ...], device: torch.device, tile: int) -> bytes:
    """The answer of ``plans`` with every numpy array moved to one allocation on the device."""
    from service.runtime.answer_printer import print_answer

    arrays = [value for plan in plans for value in plan.values() if isinstance(value, np.ndarray)]
    memory = torch.from_numpy(np.concatenate([[7], *arrays, [8]]).astype(np.int64)).to(device)
    at = 1
    moved = []
    for plan in plans:
        moved.append(dict(plan))
        for name, value in plan.items():
            if isinstance(value, np.ndarray):
                moved[-1][name] = memory[at : at + len(value)]
                at += len(value)
    return bytes(print_answer(list(answer_pieces(moved, groups, {"device": "cuda:0", "pool_version": 7})), tile))


@given(
    plans=st.lists(
        st.dictionaries(
            st.sampled_from(["verify_offsets", "é", "n", "enable"]),
            st.one_of(
                st.lists(st.integers(-(2**63), 2**63 - 1), max_size=9).map(lambda found: np.array(found, np.int64)),
                st.booleans(),
                st.integers(-5, 2**62),
            ),
        ).map(lambda plan: {"first": np.arange(3), **plan}),
        min_size=1,
        max_size=3,
    ),
    tile=st.sampled_from([1, 4, 16]),
    grouped=st.booleans(),
)
@settings(max_examples=40, deadline=None)
def test_a_printed_answer_is_the_encoded_one(
    plans: list[dict[str, Any]], tile: int, grouped: bool, kernel_device: torch.device
) -> None:
    signed = {"device": "cuda:0", "pool_version": 7}
    if grouped:
        groups = tuple(f"g{number}" for number in range(len(plans)))
        bodies = b",".join(
            b'"%b":' % name.encode() + encode_json(plan) for name, plan in zip(groups, plans, strict=True)
        )
        expected = b'{"groups":{' + bodies + b"}," + encode_json(signed)[1:]
    else:
        plans, groups = plans[:1], ()
        expected = encode_json(plans[0] | signed)
    assert printed(plans, groups, kernel_device, tile) == expected


def test_arrays_that_are_all_empty_are_printed(kernel_device: torch.device) -> None:
    plan = {"a": np.empty(0, np.int64), "n": 1, "b": np.empty(0, np.int64)}
    assert json.loads(printed([plan], (), kernel_device, 4)) == {
        "a": [],
        "n": 1,
        "b": [],
        "device": "cuda:0",
        "pool_version": 7,
    }


def test_a_view_keeps_its_answer_while_others_are_printed(kernel_device: torch.device) -> None:
    from service.runtime.answer_printer import print_answer

    views = [print_answer([b"<", torch.full((40,), number, device=kernel_device), b">"], 16) for number in range(20)]
    for number, view in enumerate(views):
        assert view.contiguous
        assert bytes(view) == b"<[" + b",".join([b"%d" % number] * 40) + b"]>"
