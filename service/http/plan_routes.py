"""The routes that compute plans: bytes in, bytes out, no model in between."""

from fastapi import APIRouter, Request, Response

from service.http.body_models import (
    PlanGroupsRequest,
    PlanGroupsResponse,
    PlanOffsetsResponse,
    PlanRequest,
    PlanResponse,
)
from service.http.examples import GROUPS_EXAMPLES, WORKED_EXAMPLES
from service.http.openapi import plan_responses, request_body
from service.http.raw import RawRoute, answered, perform
from service.runtime.engine import Engine
from service.runtime.operations import Operations


def plan_router(engine: Engine, operations: Operations) -> APIRouter:
    """``POST /plan``, ``/plan/offsets`` and ``/plan/groups``, answered by ``engine``."""
    router = APIRouter(route_class=RawRoute, tags=["plan"])
    plan, offsets = operations.plan(with_entries=True), operations.plan(with_entries=False)
    groups = operations.groups()

    @router.post(
        "/plan",
        operation_id="compute_plan",
        summary="Compute a plan",
        responses=plan_responses(PlanResponse, WORKED_EXAMPLES),
        openapi_extra=request_body(PlanRequest, WORKED_EXAMPLES),
    )
    async def compute_plan(request: Request) -> Response:
        """Offsets, seeds, totals and the verify entries of one batch."""
        return answered(await perform(engine, plan, request))

    @router.post(
        "/plan/offsets",
        operation_id="compute_plan_offsets",
        summary="Compute a plan without its entries",
        responses=plan_responses(PlanOffsetsResponse, WORKED_EXAMPLES),
        openapi_extra=request_body(PlanRequest, WORKED_EXAMPLES),
    )
    async def compute_plan_offsets(request: Request) -> Response:
        """Offsets, seeds and totals of one batch; the verify entries are neither computed nor answered."""
        return answered(await perform(engine, offsets, request))

    @router.post(
        "/plan/groups",
        operation_id="compute_plan_groups",
        summary="Compute the plans of several pool groups",
        responses=plan_responses(PlanGroupsResponse, GROUPS_EXAMPLES),
        openapi_extra=request_body(PlanGroupsRequest, GROUPS_EXAMPLES),
    )
    async def compute_plan_groups(request: Request) -> Response:
        """One batch and one table, planned for several groups: full attention and sliding windows with their look-up
        tables, target and draft models with their token offsets."""
        return answered(await perform(engine, groups, request))

    return router
