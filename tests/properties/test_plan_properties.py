"""What is true of every plan: invariants first, then equality with an oracle, on every backend."""

from typing import Any

import pytest
import torch
from hypothesis import given, settings

from service.kernels.backend import BackendName, Target, backend_named
from service.plan.planner import Plan, judge
from tests.cases import inputs_of
from tests.kernels.harness import BACKENDS
from tests.planning import compute_plan
from tests.properties.oracle import oracle
from tests.properties.strategies import requests

DEVICE = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")


def planned(request: dict[str, Any], backend: BackendName) -> Plan[Any]:
    """The plan as the service computes it."""
    device = DEVICE if backend == "triton" else torch.device("cpu")
    return compute_plan(judge(inputs_of(request)), Target(device, backend_named(backend)), with_entries=True)


@pytest.mark.parametrize("backend", BACKENDS)
@given(request=requests())
@settings(max_examples=120, deadline=None)
def test_a_plan_keeps_its_invariants(request: dict[str, Any], backend: BackendName) -> None:
    plan = planned(request, backend)
    bs = len(request["req_pool_indices"])
    lens = plan.verify_offsets[1:] - plan.verify_offsets[:-1]
    assert plan.verify_offsets[0] == plan.write_offsets[0] == 0
    assert (lens >= 0).all()
    assert plan.verify_offsets[-1] == plan.sizes.verify_total
    assert (plan.write_offsets[1 : bs + 1] >= plan.write_offsets[:bs]).all()
    assert (plan.write_offsets[bs + 1 :] == 0).all()
    padding = [r for r in range(bs) if request["req_pool_indices"][r] == 0]
    assert (lens[padding] == 0).all()
    assert (plan.write_seed_slot_indices[padding] == -1).all()
    entries = plan.entries
    assert entries is not None
    assert entries.verify_slot_indices.shape == ((plan.sizes.verify_total if plan.sizes.enabled else 0),)
    if plan.sizes.enabled:
        for r in range(bs):
            own = slice(plan.verify_offsets[r], plan.verify_offsets[r + 1])
            n = max(request["prefix_lens"][r], 0)
            assert entries.verify_expected_positions[own].tolist() == list(range(n - lens[r], n) if lens[r] else [])
            slots, prev_slots = entries.verify_slot_indices[own], entries.verify_prev_slot_indices[own]
            assert slots[:-1].tolist() == prev_slots[1:].tolist()


@pytest.mark.parametrize("backend", BACKENDS)
@given(request=requests())
@settings(max_examples=250, deadline=None)
def test_a_plan_equals_the_oracles(request: dict[str, Any], backend: BackendName) -> None:
    plan, expected = planned(request, backend), oracle(request)
    entries = plan.entries
    assert entries is not None
    assert {
        "verify_offsets": plan.verify_offsets.tolist(),
        "verify_total": plan.sizes.verify_total,
        "verify_num_valid": min(plan.sizes.verify_total, plan.sizes.verify_capacity),
        "verify_enable": plan.sizes.enabled,
        "verify_slot_indices": entries.verify_slot_indices.tolist(),
        "verify_expected_tokens": entries.verify_expected_tokens.tolist(),
        "verify_expected_positions": entries.verify_expected_positions.tolist(),
        "verify_prev_slot_indices": entries.verify_prev_slot_indices.tolist(),
        "write_offsets": plan.write_offsets.tolist(),
        "write_seed_slot_indices": plan.write_seed_slot_indices.tolist(),
        "write_num_valid_reqs": plan.sizes.bs,
    } == expected
