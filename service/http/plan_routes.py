"""The routes that compute plans: bytes in, bytes out, no model in between."""

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.routing import APIRoute

from service.http.examples import WORKED_EXAMPLES
from service.http.media import require_json
from service.http.openapi import plan_request_body, plan_responses
from service.http.schemas import PlanOffsetsResponse, PlanResponse
from service.runtime.engine import Answer, PlanEngine


class RawRoute(APIRoute):
    """A route whose endpoint reads the request itself; its signature only describes the body for the schema."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The endpoint, called with the request as it is."""
        endpoint: Callable[[Request], Coroutine[Any, Any, Response]] = self.endpoint
        return endpoint


def plan_router(engine: PlanEngine) -> APIRouter:
    """``POST /plan`` and ``POST /plan/offsets``, answered by ``engine``."""
    router = APIRouter(route_class=RawRoute, tags=["plan"])

    @router.post(
        "/plan",
        operation_id="compute_plan",
        summary="Compute a plan",
        responses=plan_responses(PlanResponse, WORKED_EXAMPLES),
        openapi_extra=plan_request_body(WORKED_EXAMPLES),
    )
    async def compute_plan(request: Request) -> Response:
        """Offsets, seeds, totals and the verify entries of one batch."""
        return await _answer(engine, request, with_entries=True)

    @router.post(
        "/plan/offsets",
        operation_id="compute_plan_offsets",
        summary="Compute a plan without its entries",
        responses=plan_responses(PlanOffsetsResponse, WORKED_EXAMPLES),
        openapi_extra=plan_request_body(WORKED_EXAMPLES),
    )
    async def compute_plan_offsets(request: Request) -> Response:
        """Offsets, seeds and totals of one batch; the verify entries are neither computed nor answered."""
        return await _answer(engine, request, with_entries=False)

    return router


async def _answer(engine: PlanEngine, request: Request, *, with_entries: bool) -> Response:
    require_json(request.headers)
    answer = await engine.answer(request.body, with_entries=with_entries)
    return Response(answer.content, headers={"server-timing": _server_timing(answer)}, media_type="application/json")


def _server_timing(answer: Answer) -> str:
    """Stage times as the Server-Timing header gives them, in milliseconds."""
    return ", ".join(f"{name};dur={seconds * 1e3:.3f}" for name, seconds in answer.stage_seconds.items())
