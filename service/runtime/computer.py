"""Computes judged and bounded plans on the device. The only caller of the planner; one call at a time."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from service.errors import refusal, within
from service.kernels.compile_events import compiled_kernels
from service.kernels.operands import INT64_MAX
from service.plan.inputs import PlanInputs
from service.plan.planner import Plan, PlanJob, compute_plans, judge
from service.plan.tables import Tables
from service.plan.transfer import Workspace
from service.plan.update import RowsUpdate, TablesUpdate, apply_update


@dataclass(frozen=True, slots=True)
class PlanLimits:
    """How large a plan may be: requests of a batch, cells of a table, verify entries of an answer."""

    max_requests: int
    max_table_cells: int
    max_verify_entries: int

    def require_table(self, name: str, cells: int) -> None:
        """Accept a table called ``name`` that has so many cells."""
        if cells > self.max_table_cells:
            raise refusal("table-too-large", name=name, have=cells, limit=self.max_table_cells)


@dataclass(slots=True)
class PlanComputer:
    """Callable that turns inputs into plans, on one device and within limits."""

    workspace: Workspace
    limits: PlanLimits
    most_read: int = INT64_MAX
    """Elements of plans up to which they are brought to the host; the arrays of larger ones stay on the device."""
    warm_up_others: Sequence[Callable[[], None]] = ()
    """What else compiles kernels that requests need."""
    compiled_by_warm_up: int | None = None
    """Kernels that this process had compiled when the warm-up was over; None until then."""

    def __call__(self, inputs: Sequence[PlanInputs], with_entries: bool) -> list[Plan[Any]]:
        """The plan of each of ``inputs``.

        Raises ``InvalidInput`` for inputs that break a rule, ``ServingRefusal`` for ones over a limit.
        """
        jobs: list[PlanJob] = []
        for one in inputs:
            with within(*one.loc):
                self._bound_inputs(one)
            jobs.append(judge(one, jobs[-1] if jobs else None))
        self._bound_answers(jobs, with_entries)
        return compute_plans(jobs, self.workspace, with_entries=with_entries, most_read=self.most_read)

    def warm_up(self) -> None:
        """Compile and run every kernel variant once, so that no request pays for it."""
        tables = _tiny_tables().on(self.workspace.target.device)
        for starts in (None, torch.zeros(1, dtype=torch.int64)):
            rows = RowsUpdate(torch.tensor([2, 3]), torch.tensor([0, 2]), torch.tensor([1]), starts)
            apply_update(TablesUpdate({"req_to_token": rows}), tables, self.workspace)
        for lut in (False, True):
            for tokens in (False, True):
                # The first plan with these tables compiles the kernels for batches of every size.
                job = judge(_tiny_inputs(tables.without(lut=not lut, tokens=not tokens)))
                compute_plans([job], self.workspace, with_entries=True)
        for warm_up in self.warm_up_others:
            with self.workspace.entered():
                warm_up()
        self.compiled_by_warm_up = compiled_kernels()

    def _bound_inputs(self, inputs: PlanInputs) -> None:
        for name, have in (
            ("bs", inputs.req_pool_indices.numel()),
            ("write_req_capacity", inputs.write_req_capacity or 0),
        ):
            if have > self.limits.max_requests:
                raise refusal("batch-too-large", name=name, have=have, limit=self.limits.max_requests)
        for tensor, spec in inputs.tensors():
            if spec.axes != ("bs",):
                self.limits.require_table(spec.name, tensor.numel())

    def _bound_answers(self, jobs: Sequence[PlanJob], with_entries: bool) -> None:
        """Hold the plans of all groups together against the limits."""
        have, limit = sum(job.sizes.write_req_capacity for job in jobs), self.limits.max_requests
        if have > max(limit, len(jobs)):  # a plan of no requests has room for one
            raise refusal("batch-too-large", name="write_req_capacity of all groups", have=have, limit=limit)
        if not with_entries:
            return
        entries = sum(job.sizes.verify_total for job in jobs if job.sizes.enabled)
        if entries > self.limits.max_verify_entries:
            raise refusal("plan-too-large", have=entries, limit=self.limits.max_verify_entries)


def _tiny_tables() -> Tables:
    return Tables(
        torch.tensor([[0, 0], [2, 3]], dtype=torch.int32), torch.arange(4), torch.zeros((2, 2), dtype=torch.int32)
    )


def _tiny_inputs(tables: Tables) -> PlanInputs:
    return PlanInputs(
        req_pool_indices=torch.tensor([1]),
        prefix_lens=torch.tensor([2]),
        extend_seq_lens=torch.tensor([1]),
        req_to_token=tables.req_to_token,
        full_to_swa_index_mapping=tables.full_to_swa_index_mapping,
        req_to_verify_expected_tokens=tables.req_to_verify_expected_tokens,
        req_to_verify_expected_tokens_valid_lens=torch.tensor([2]),
        resident=True,
    )
