"""One plan at a time, in memory of its own, for tests that ask for nothing else."""

from typing import Any

from service.kernels.backend import Target
from service.plan.planner import Plan, PlanJob, compute_plans
from service.plan.transfer import Workspace


def compute_plan(job: PlanJob, target: Target, *, with_entries: bool) -> Plan[Any]:
    """The plan of one job."""
    return compute_plans([job], Workspace(target), with_entries=with_entries)[0]
