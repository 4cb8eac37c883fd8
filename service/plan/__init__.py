"""KV-canary plans in process: the drop-in for engines. Knows no web package.

Source of the domain: the KV-canary planner of SGLang.
"""

from service.plan.in_process import (
    VerifyPlan,
    WritePlan,
    launch_canary_plan_kernels,
    launch_canary_plan_kernels_torch_reference,
)
from service.plan.inputs import PlanInputs
from service.plan.require import require_same_device
from service.plan.scatter import launch_scatter_req_token_ids_kernel, scatter_req_token_ids_torch_reference

__all__ = [
    "PlanInputs",
    "VerifyPlan",
    "WritePlan",
    "launch_canary_plan_kernels",
    "launch_canary_plan_kernels_torch_reference",
    "launch_scatter_req_token_ids_kernel",
    "require_same_device",
    "scatter_req_token_ids_torch_reference",
]
