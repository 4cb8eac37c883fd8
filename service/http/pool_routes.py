"""The routes of resident pools: tables that are sent once and stay on the device."""

from typing import Any

import orjson
from fastapi import APIRouter, Request, Response

from service.http.answers import JsonAnswer
from service.http.body_models import PlanResponse, PoolRequest, ScatterRequest, StepRequest, whole
from service.http.examples import POOL, POOL_EXAMPLES, SCATTER_EXAMPLES, STEP_EXAMPLES, WorkedExample
from service.http.openapi import BODY_STATUSES, TIMING_HEADER, json_answer, problems, request_body
from service.http.preconditions import is_unchanged, precondition_of
from service.http.raw import RawRoute, answered, perform, share_methods
from service.http.schemas import PoolInfo, PoolList
from service.runtime.engine import Engine
from service.runtime.operations import Operations, encode_pool, pool_fields
from service.runtime.pools import Pool, etag_of
from service.runtime.queries import require_pool_name
from service.spec import POOL_NAME_PATTERN

_ETAG_HEADER: dict[str, Any] = {"etag": {"description": "The version in quotes.", "schema": {"type": "string"}}}
_NAME_PARAMETER = {
    "name": "pool",
    "in": "path",
    "required": True,
    "description": "Name of the pool.",
    "schema": {"type": "string", "pattern": whole(POOL_NAME_PATTERN), "example": "example"},
}


def _conditional(name: str, meaning: str) -> dict[str, Any]:
    return {"name": name, "in": "header", "required": False, "description": meaning, "schema": {"type": "string"}}


_IF_MATCH = _conditional("If-Match", "The entity tag that the pool must have, quotes included; * for any.")
_CONDITIONS = (
    _IF_MATCH,
    _conditional("If-None-Match", "* for no pool of that name, or entity tags that it must not have."),
)
_IF_CHANGED = _conditional("If-None-Match", "The entity tag that the caller has; the answer is 304 if it still holds.")
_LISTED = WorkedExample(
    "one",
    "One pool",
    {},
    {"pools": [POOL.response], "resident_bytes": POOL.response["bytes"], "max_resident_bytes": 2**30},
)


def pool_router(engine: Engine, operations: Operations) -> APIRouter:
    """``GET /pools`` and everything under ``/pools/{pool}``, answered by ``engine``."""
    router = APIRouter(route_class=RawRoute, tags=["pools"])
    _add_reading_routes(router, operations)
    _add_storing_routes(router, engine, operations)
    _add_changing_routes(router, engine, operations)
    share_methods(router.routes)
    return router


def _add_reading_routes(router: APIRouter, operations: Operations) -> None:
    pools = operations.pools

    @router.get(
        "/pools",
        operation_id="list_pools",
        summary="Every resident pool",
        responses={200: json_answer("The pools.", PoolList, [_LISTED], {}), **problems(500, 501)},
    )
    async def list_pools(_: Request) -> Response:
        """What is resident, and how much room is left."""
        operations.require_one_worker()
        listed = pools.snapshot()
        resident_bytes = sum(pool.tables.resident_bytes for pool in listed)
        answer = {"pools": [pool_fields(pool) for pool in listed], "resident_bytes": resident_bytes}
        return JsonAnswer(orjson.dumps(answer | {"max_resident_bytes": pools.max_resident_bytes}), {})

    @router.get(
        "/pools/{pool}",
        operation_id="get_pool",
        summary="One resident pool",
        openapi_extra={"parameters": [_NAME_PARAMETER, _IF_CHANGED]},
        responses={
            200: json_answer("The pool.", PoolInfo, [POOL], _ETAG_HEADER),
            304: {"description": "The caller's entity tag still holds."},
            **problems(404, 422, 500, 501),
        },
    )
    async def get_pool(request: Request) -> Response:
        """Version, size and tables of a pool. This does not count as a use of it."""
        pool = pools.pool(_name_in(request, operations))
        if is_unchanged(request.headers, etag_of(pool)):
            return Response(status_code=304, headers=_etag(pool))
        return JsonAnswer(encode_pool(pool), _etag(pool))


def _add_storing_routes(router: APIRouter, engine: Engine, operations: Operations) -> None:
    @router.put(
        "/pools/{pool}",
        operation_id="put_pool",
        summary="Store the tables of a pool",
        openapi_extra=request_body(PoolRequest, POOL_EXAMPLES) | {"parameters": [_NAME_PARAMETER, *_CONDITIONS]},
        responses={
            200: json_answer("The pool has been replaced.", PoolInfo, POOL_EXAMPLES, _ETAG_HEADER | TIMING_HEADER),
            201: json_answer("The pool is new.", PoolInfo, POOL_EXAMPLES, _ETAG_HEADER | TIMING_HEADER),
            **problems(*BODY_STATUSES, 412, 501, 504, 507),
        },
    )
    async def put_pool(request: Request) -> Response:
        """Store the tables of a pool on the device, in place of those that it had. A plan sees the old tables or the
        new ones, never both. Pools that were used longest ago are given up when the budget is exceeded."""
        operation = operations.put(_name_in(request, operations), precondition_of(request.headers))
        answer = await perform(engine, operation, request)
        return answered(answer, _etag(answer.result.pool), 201 if answer.result.created else 200)

    @router.delete(
        "/pools/{pool}",
        operation_id="delete_pool",
        summary="Forget a pool",
        status_code=204,
        openapi_extra={"parameters": [_NAME_PARAMETER, *_CONDITIONS]},
        responses={
            204: {"description": "The pool is gone."},
            **problems(404, 408, 412, 413, 422, 429, 500, 501, 503, 504),
        },
    )
    async def delete_pool(request: Request) -> Response:
        """Forget a pool and give its memory back."""
        name, precondition = _name_in(request, operations), precondition_of(request.headers)
        await engine.run(lambda: operations.pools.delete(name, precondition), request.body)
        return Response(status_code=204)


def _add_changing_routes(router: APIRouter, engine: Engine, operations: Operations) -> None:
    @router.post(
        "/pools/{pool}/scatter",
        operation_id="scatter_pool",
        summary="Change rows and cells of a pool",
        openapi_extra=request_body(ScatterRequest, SCATTER_EXAMPLES) | {"parameters": [_NAME_PARAMETER, *_CONDITIONS]},
        responses={
            200: json_answer("The pool has changed.", PoolInfo, SCATTER_EXAMPLES, _ETAG_HEADER | TIMING_HEADER),
            **problems(*BODY_STATUSES, 404, 409, 412, 501, 504),
        },
    )
    async def scatter_pool(request: Request) -> Response:
        """Change rows of the tables and cells of the look-up table, in place: all of it, or nothing if any part of it
        is refused."""
        operation = operations.scatter(_name_in(request, operations), precondition_of(request.headers))
        answer = await perform(engine, operation, request)
        return answered(answer, _etag(answer.result.pool))

    @router.post(
        "/pools/{pool}/step",
        operation_id="step_pool",
        summary="Change a pool, then plan",
        openapi_extra=request_body(StepRequest, STEP_EXAMPLES) | {"parameters": [_NAME_PARAMETER, *_CONDITIONS]},
        responses={
            200: json_answer("The plan.", PlanResponse, STEP_EXAMPLES, _ETAG_HEADER | TIMING_HEADER),
            **problems(*BODY_STATUSES, 404, 409, 412, 501, 504),
        },
    )
    async def step_pool(request: Request) -> Response:
        """What an engine does every step, in one round trip: store the new slots, then plan. If the plan is refused,
        nothing has changed."""
        operation = operations.step(_name_in(request, operations), precondition_of(request.headers))
        answer = await perform(engine, operation, request)
        return answered(answer, _etag(answer.result.pool))


def _name_in(request: Request, operations: Operations) -> str:
    """The name of the pool in the path. Refused where there can be no pools, or none of that name."""
    operations.require_one_worker()
    name: str = request.path_params["pool"]
    require_pool_name(name)
    return name


def _etag(pool: Pool) -> dict[str, str]:
    return {"etag": etag_of(pool)}
