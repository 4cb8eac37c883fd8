"""Wires the service together: engine, middleware, handlers, routers, lifespan. Decides nothing else."""

import gc
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from functools import partial
from importlib.metadata import version
from typing import Any

from fastapi import FastAPI
from fastapi_offline import FastAPIOffline

from service.http.direct import DirectMiddleware
from service.http.envelope import EnvelopeMiddleware
from service.http.error_routes import error_router
from service.http.limits import BodyLimitMiddleware
from service.http.openapi import build_openapi
from service.http.operations_routes import operations_router
from service.http.plan_routes import plan_router
from service.http.pool_routes import pool_router
from service.http.problems import install_problem_handlers
from service.http.schemas import Info, SettingInfo
from service.kernels.backend import Target
from service.kernels.compile_events import compiled_kernels
from service.plan.transfer import Workspace
from service.runtime.computer import PlanComputer, PlanLimits
from service.runtime.device import resolve_target, versions
from service.runtime.device_arrays import DeviceArrayReader
from service.runtime.engine import Engine, EngineOptions, Reading
from service.runtime.malloc import keep_freed_blocks
from service.runtime.operations import Compute, Operations
from service.runtime.pools import PoolStore
from service.runtime.seats import take_seat
from service.settings import Settings, load_settings, variable_of
from service.wire.json_body import BodyReader
from service.wire.quick_array import quick_array_reader

_DESCRIPTION = (
    "KV-canary plans for LLM inference engines: which slots of the KV cache to verify before a step, and where its new "
    "tokens go. Every error is `application/problem+json`; its `type` leads to a page that explains it."
)


def create_app(settings: Settings, compute: Compute | None = None, *, seat: int = 0) -> FastAPI:
    """The service as an ASGI application.

    ``compute`` replaces the planner, for tests that need a slow or failing one. ``seat`` tells the server processes of
    one service apart, see ``resolve_target``.
    Raises ``DeviceError`` when the machine lacks the configured device or backend.
    """
    target = resolve_target(settings.device, settings.kernels, seat)
    computer = PlanComputer(Workspace(target), plan_limits(settings))
    engine = Engine(_engine_options(settings, target), computer.warm_up, reading_of(target, computer))
    operations = Operations(
        compute=compute or computer,
        pools=PoolStore(computer.workspace, settings.max_resident_bytes),
        limits=computer.limits,
        signature={"device": str(target.device), "backend": target.backend.name},
        quick=compute is None and target.backend.name == "host",
        workers=settings.workers,
    )

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        engine.start()
        try:
            yield
        finally:
            engine.close()

    app = FastAPIOffline(
        redoc_url=None,
        title="KV-canary plans",
        version=version("kv-plan"),
        description=_DESCRIPTION,
        redirect_slashes=False,
        telemetry={"tracing": False, "metrics": False, "logs": False},  # asked anew for each request, it is slow
        lifespan=lifespan,
    )
    plans, pools = plan_router(engine, operations), pool_router(engine, operations)
    app.include_router(plans)
    app.include_router(pools)
    info = service_info(settings, target)
    app.include_router(operations_router(engine, lambda: _with_compile_counts(info, computer.compiled_by_warm_up)))
    app.include_router(error_router())
    install_problem_handlers(app)
    app.add_middleware(DirectMiddleware, routes=[*plans.routes, *pools.routes])
    app.add_middleware(BodyLimitMiddleware, max_body_bytes=settings.max_body_bytes)
    app.add_middleware(EnvelopeMiddleware)
    _use_own_schema(app)
    return app


def create_app_from_environment() -> FastAPI:
    """The service with the settings of the process environment; what a server process calls."""
    keep_freed_blocks(os.environ)
    app = create_app(load_settings(os.environ), seat=take_seat())
    # What was made until here stays as long as the process: a full collection would stop every request to walk it all.
    gc.freeze()
    return app


def service_info(settings: Settings, target: Target) -> Info:
    """What is running, where, within which limits, before any kernel is compiled."""
    return Info(
        service="kv-plan",
        version=version("kv-plan"),
        device=str(target.device),
        device_description=target.device_description,
        backend=target.backend.name,
        kernels_compiled=0,
        kernels_compiled_after_ready=0,
        versions=versions(),
        settings=[
            SettingInfo(name=name, variable=variable_of(name), value=value, meaning=field.description or "")
            for name, field in Settings.model_fields.items()
            for value in [getattr(settings, name)]
        ],
    )


def _with_compile_counts(info: Info, by_warm_up: int | None) -> Info:
    """The same with the kernels compiled until now; ``by_warm_up`` is None before the warm-up is over."""
    compiled = compiled_kernels()
    after_ready = 0 if by_warm_up is None else compiled - by_warm_up
    return info.model_copy(update={"kernels_compiled": compiled, "kernels_compiled_after_ready": after_ready})


def plan_limits(settings: Settings) -> PlanLimits:
    """The limits on one plan that the settings give."""
    return PlanLimits(settings.max_requests, settings.max_table_cells, settings.max_verify_entries)


def reading_of(target: Target, computer: PlanComputer) -> Reading:
    """How bodies are read. On a CUDA device, what is large is read and printed there."""
    on_host = quick_array_reader()
    if target.device.type != "cuda":
        return lambda _body: nullcontext(BodyReader(on_host))
    from service.kernels import json_printer  # where Triton is missing nobody gets here

    on_device = DeviceArrayReader(target.device, on_host)
    computer.most_read = json_printer.MOST_ELEMENTS_READ
    computer.warm_up_others = (on_device.warm_up, partial(json_printer.warm_up, target.device))
    return on_device.reading


def _engine_options(settings: Settings, target: Target) -> EngineOptions:
    return EngineOptions(
        device=str(target.device),
        max_queued_requests=settings.max_queued_requests,
        body_timeout_seconds=settings.body_timeout_seconds,
        deadline_seconds=settings.deadline_seconds,
        inline_body_bytes=settings.inline_body_bytes,
        codec_threads=settings.codec_threads,
    )


def _use_own_schema(app: FastAPI) -> None:
    """Serve the schema that ``openapi.json`` holds, made once."""

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = build_openapi(app)
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]
