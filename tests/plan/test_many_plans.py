"""Several plans computed together: each is its own, and what they share travels once."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pytest
import torch

from service.errors import InvalidInput
from service.kernels.backend import BackendName, Target, backend_named
from service.plan.inputs import PlanInputs
from service.plan.planner import Plan, compute_plans, judge
from service.plan.reference import plan_reference
from service.plan.tables import Tables
from service.plan.transfer import Workspace
from service.runtime.plan_codec import plan_fields
from service.runtime.queries import groups_query
from tests.batches import Shape, draw_batch
from tests.kernels.harness import BACKENDS, device_of

TABLES = ("req_to_token", "full_to_swa_index_mapping", "req_to_verify_expected_tokens")


class NotingWorkspace(Workspace):
    """Notes the tensors of each load."""

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        self.loads: list[list[torch.Tensor]] = []

    def load(self, tensors: Sequence[torch.Tensor], head: Any, results: int) -> Any:
        """The same, noted."""
        self.loads.append(list(tensors))
        return super().load(tensors, head, results)


def target_of(backend: BackendName, kernel_device: torch.device) -> Target:
    return Target(device_of(backend, kernel_device), backend_named(backend))


def groups_of(batch: PlanInputs) -> list[PlanInputs]:
    """Groups of every kind over one batch: with and without tables, windows, overflow, offsets."""
    total = judge(batch).sizes.verify_total
    return [
        replace(batch, full_to_swa_index_mapping=None, swa_window_size=0, loc=("groups", "full")),
        replace(batch, swa_window_size=3, loc=("groups", "swa")),
        replace(batch, verify_capacity=max(total - 1, 1)),
        replace(batch, req_to_verify_expected_tokens=None, write_req_capacity=batch.bs + 3),
        replace(batch, kv_token_id_vs_position_offset=1, verify_capacity=total + 5),
    ]


def resident(inputs: PlanInputs, tables: Tables) -> PlanInputs:
    """The same over tables that stay on the device, those that it has."""
    there: dict[str, Any] = {name: None if getattr(inputs, name) is None else getattr(tables, name) for name in TABLES}
    return replace(inputs, **there, resident=True)


def assert_is_reference(plan: Plan[Any], inputs: PlanInputs) -> None:
    expected = asdict(plan_reference(inputs))
    assert plan.entries is not None
    for name in ("verify_offsets", "write_offsets", "write_seed_slot_indices"):
        assert getattr(plan, name).tolist() == expected[name]
    for name in ("slot_indices", "expected_tokens", "expected_positions", "prev_slot_indices"):
        column = getattr(plan.entries, f"verify_{name}")
        assert (column.dtype, column.tolist()) == (np.int64, expected[f"verify_{name}"])
    assert plan.sizes.enabled is expected["verify_enable"]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("over_pool", [False, True])
@pytest.mark.parametrize("bs", [0, 1, 33])
def test_each_of_several_plans_is_its_own(
    bs: int, over_pool: bool, backend: BackendName, kernel_device: torch.device
) -> None:
    target = target_of(backend, kernel_device)
    workspace = Workspace(target)
    inputs = groups_of(draw_batch(Shape(bs=bs, cols=4, lut=True, tokens=True), seed=bs))
    tables = Tables(*(getattr(inputs[1], name) for name in TABLES)).on(target.device)
    jobs = [judge(resident(one, tables) if over_pool else one) for one in inputs]
    for plan, one in zip(compute_plans(jobs, workspace, with_entries=True), inputs, strict=True):
        assert_is_reference(plan, one)
    for plan, one in zip(compute_plans(jobs[:2], workspace, with_entries=False), inputs[:2], strict=True):
        assert plan.entries is None
        assert plan.write_seed_slot_indices.tolist() == plan_reference(one).write_seed_slot_indices


@pytest.mark.triton
@pytest.mark.parametrize("with_entries", [False, True])
def test_plans_with_more_elements_than_are_read_stay_on_the_device(
    with_entries: bool, kernel_device: torch.device
) -> None:
    workspace = Workspace(target_of("triton", kernel_device))
    jobs = [judge(one) for one in groups_of(draw_batch(Shape(bs=7, cols=4, lut=True, tokens=True), seed=2))]
    read = compute_plans(jobs, workspace, with_entries=with_entries)
    for most_read, kind in ((0, torch.Tensor), (10**6, np.ndarray)):
        plans = compute_plans(jobs, workspace, with_entries=with_entries, most_read=most_read)
        for plan, expected in zip(map(plan_fields, plans), map(plan_fields, read), strict=True):
            arrays = {name: value for name, value in plan.items() if isinstance(value, kind)}
            assert arrays.keys() >= {name for name, value in expected.items() if np.asarray(value).size > 1}
            assert {name: np.asarray(torch.as_tensor(value).cpu()).tolist() for name, value in plan.items()} == {
                name: np.asarray(value).tolist() for name, value in expected.items()
            }


@pytest.mark.triton
def test_a_slot_outside_is_found_in_plans_that_stay_too(kernel_device: torch.device) -> None:
    batch = draw_batch(Shape(bs=6, cols=8, lut=True, padding=0), seed=3)
    batch.req_to_token[:] = 5
    job = judge(replace(batch, prefix_lens=torch.full((6,), 8), full_to_swa_index_mapping=torch.arange(5)))
    with pytest.raises(InvalidInput, match="SWA slot 5 is outside full_to_swa_index_mapping length 5"):
        compute_plans([job], Workspace(target_of("triton", kernel_device)), with_entries=True, most_read=0)


@pytest.mark.triton
@pytest.mark.parametrize("over_pool", [False, True])
def test_what_groups_share_travels_once(over_pool: bool, kernel_device: torch.device) -> None:
    batch = draw_batch(Shape(bs=5, cols=4, lut=True, tokens=True), seed=1)
    vectors = ("req_pool_indices", "prefix_lens", "extend_seq_lens", "req_to_verify_expected_tokens_valid_lens")
    tables = () if over_pool else TABLES
    fields = {name: getattr(batch, name).numpy() for name in (*vectors, *tables)}
    lut = fields.pop("full_to_swa_index_mapping", None)
    group = {} if lut is None else {"full_to_swa_index_mapping": lut}
    query = groups_query(fields | {"groups": {"a": {}, "b": group, "c": group}} | ({"pool": "p"} if over_pool else {}))
    workspace = NotingWorkspace(target_of("triton", kernel_device))
    there = Tables(*(getattr(batch, name) for name in TABLES)).on(kernel_device) if over_pool else None
    jobs = [judge(one) for one in query.inputs(there)]
    compute_plans(jobs, workspace, with_entries=True)
    (load,) = workspace.loads
    assert len(load) == len({tensor.data_ptr() for tensor in load}) == len(vectors) + len(tables)


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_first_group_with_a_slot_outside_is_named(backend: BackendName, kernel_device: torch.device) -> None:
    batch = draw_batch(Shape(bs=6, cols=8, lut=True, padding=0), seed=3)
    batch.req_to_token[:] = 5
    short = replace(batch, prefix_lens=torch.full((6,), 8), full_to_swa_index_mapping=torch.arange(5))
    jobs = [
        judge(replace(short, full_to_swa_index_mapping=torch.arange(6), loc=("groups", "fits"))),
        judge(replace(short, loc=("groups", "b"))),
        judge(replace(short, full_to_swa_index_mapping=torch.arange(4), loc=("groups", "a"))),
    ]
    with pytest.raises(InvalidInput, match="SWA slot 5 is outside full_to_swa_index_mapping length 5") as raised:
        compute_plans(jobs, Workspace(target_of(backend, kernel_device)), with_entries=True)
    assert raised.value.loc == ("groups", "b")
