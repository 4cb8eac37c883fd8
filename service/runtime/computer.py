"""Computes one judged and bounded plan on the device. The only caller of the planner; runs on the device thread."""

from dataclasses import dataclass

import torch

from service.errors import refusal
from service.kernels.backend import Target
from service.plan.inputs import PlanInputs
from service.plan.planner import Plan, PlanSizes, compute_plan, judge

WARM_UP_BATCHES = (1, 33, 1025)
"""One size of batch for each way in which the kernels are compiled."""


@dataclass(frozen=True, slots=True)
class PlanLimits:
    """How large a plan may be: requests of a batch, cells of a table, verify entries of an answer."""

    max_requests: int
    max_table_cells: int
    max_verify_entries: int


@dataclass(frozen=True, slots=True)
class PlanComputer:
    """Callable that turns inputs on the host into a plan, on one device and within limits."""

    target: Target
    limits: PlanLimits

    def __call__(self, inputs: PlanInputs, with_entries: bool) -> Plan:
        """The plan; raises ``InvalidInput`` for inputs that break a rule, ``ServingRefusal`` for ones over a limit."""
        self._bound_inputs(inputs)
        job = judge(inputs)
        self._bound_answer(job.sizes, with_entries)
        return compute_plan(job, self.target, with_entries=with_entries)

    def warm_up(self) -> None:
        """Compile and run every kernel variant once, so that no request pays for it."""
        for bs in WARM_UP_BATCHES:
            for lut in (None, torch.arange(4)):
                for tokens in (None, torch.zeros((2, 2), dtype=torch.int32)):
                    compute_plan(judge(_tiny_requests(bs, lut, tokens)), self.target, with_entries=True)

    def _bound_inputs(self, inputs: PlanInputs) -> None:
        for name, have in (
            ("bs", inputs.req_pool_indices.numel()),
            ("write_req_capacity", inputs.write_req_capacity or 0),
        ):
            if have > self.limits.max_requests:
                raise refusal("batch-too-large", name=name, have=have, limit=self.limits.max_requests)
        for tensor, spec in inputs.tensors():
            if spec.axes != ("bs",) and tensor.numel() > self.limits.max_table_cells:
                raise refusal("table-too-large", name=spec.name, have=tensor.numel(), limit=self.limits.max_table_cells)

    def _bound_answer(self, sizes: PlanSizes, with_entries: bool) -> None:
        if with_entries and sizes.enabled and sizes.verify_total > self.limits.max_verify_entries:
            raise refusal("plan-too-large", have=sizes.verify_total, limit=self.limits.max_verify_entries)


def _tiny_requests(bs: int, lut: torch.Tensor | None, tokens: torch.Tensor | None) -> PlanInputs:
    return PlanInputs(
        req_pool_indices=torch.ones(bs, dtype=torch.int64),
        prefix_lens=torch.full((bs,), 2),
        extend_seq_lens=torch.ones(bs, dtype=torch.int64),
        req_to_token=torch.tensor([[0, 0], [2, 3]], dtype=torch.int32),
        full_to_swa_index_mapping=lut,
        req_to_verify_expected_tokens=tokens,
        req_to_verify_expected_tokens_valid_lens=None if tokens is None else torch.full((bs,), 2),
    )
