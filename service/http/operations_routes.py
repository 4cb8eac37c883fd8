"""The routes of operators: probes, and what is running."""

from collections.abc import Callable

from fastapi import APIRouter

from service.errors import refusal
from service.http.openapi import problem_answer
from service.http.schemas import Alive, Info, Ready
from service.runtime.engine import Engine


def operations_router(engine: Engine, info: Callable[[], Info]) -> APIRouter:
    """``GET /livez``, ``/readyz`` and ``/info``."""
    router = APIRouter(tags=["operations"])

    @router.get("/livez", operation_id="get_liveness", summary="Is the process alive?")
    async def livez() -> Alive:
        """Answers as long as the process serves requests."""
        return Alive()

    @router.get(
        "/readyz",
        operation_id="get_readiness",
        summary="Does the service take plans?",
        responses={
            503: problem_answer("Not yet, or the warm-up has failed.", {"not-ready": {"reason": "it has just started"}})
        },
    )
    async def readyz() -> Ready:
        """Answers 200 once every kernel has been compiled and tried on the device, 503 before."""
        if engine.not_ready_reason is not None:
            raise refusal("not-ready", reason=engine.not_ready_reason)
        return Ready()

    @router.get("/info", operation_id="get_info", summary="What is running, where, within which limits?")
    async def get_info() -> Info:
        """Device, backend, versions and every setting in force, and how many kernels were compiled."""
        return info()

    router.head("/livez", include_in_schema=False)(livez)
    router.head("/readyz", include_in_schema=False)(readyz)
    return router
