"""Pydantic models of everything that the service answers, plans aside."""

from typing import Literal

from pydantic import BaseModel, Field


class Problem(BaseModel):
    """An error, as application/problem+json (RFC 9457)."""

    type: str = Field(description="Page of the error: /errors/{code}.")
    title: str = Field(description="What is wrong, in general.")
    status: int = Field(description="The HTTP status.")
    detail: str = Field(
        description="What is wrong, in this request. For a refused batch exactly the planner's message."
    )
    error: str = Field(description="The same as detail.")
    code: str = Field(description="Stable code of the error.")
    request_id: str = Field(description="Id of the request, also in the x-request-id header.")
    loc: list[str] | None = Field(
        default=None,
        description="Names of the objects in the body, from the outermost, inside which the fault is, or for whose "
        "plan it was found; left out when there is none.",
    )


class Alive(BaseModel):
    """The process answers."""

    status: Literal["alive"] = Field(default="alive", description="Always alive.")


class Ready(BaseModel):
    """The service is warmed up and takes plans."""

    status: Literal["ready"] = Field(
        default="ready", description="Always ready; when it is not, the answer is a 503 problem."
    )


class PoolTable(BaseModel):
    """One table of a pool."""

    name: str = Field(description="Name of the table, as in the body of a plan.")
    shape: list[int] = Field(description="Elements along each axis.")
    dtype: Literal["int32", "int64"] = Field(description="Type of its elements.")
    bytes: int = Field(description="Bytes that it takes.")


class PoolInfo(BaseModel):
    """A resident pool."""

    pool: str = Field(description="Name of the pool.")
    version: int = Field(
        description="Counts up with every change; no version is ever used twice. The ETag is the same in quotes."
    )
    bytes: int = Field(description="Bytes that its tables take.")
    tables: list[PoolTable] = Field(description="The tables that it has.")


class PoolList(BaseModel):
    """Every resident pool."""

    pools: list[PoolInfo] = Field(description="The pools, from the one used longest ago to the one used last.")
    resident_bytes: int = Field(description="Bytes that all of them take.")
    max_resident_bytes: int = Field(description="Bytes that all of them may take (KV_PLAN_MAX_RESIDENT_BYTES).")


class SettingInfo(BaseModel):
    """One setting as it is in force."""

    name: str = Field(description="Name of the setting.")
    variable: str = Field(description="Environment variable that sets it.")
    value: str | int | float = Field(description="Value in force.")
    meaning: str = Field(description="What it does.")


class Info(BaseModel):
    """What is running, where, and within which limits."""

    service: str = Field(description="Name of the service.")
    version: str = Field(description="Version of the service.")
    device: str = Field(description="Device of every tensor, for example cuda:0.")
    device_description: str = Field(description="The hardware behind it.")
    backend: Literal["triton", "host"] = Field(description="Code that computes plans: triton or host.")
    kernels_compiled: int = Field(description="Kernels that this process has compiled, or loaded ready compiled.")
    kernels_compiled_after_ready: int = Field(
        description="Those of them that a request had to wait for: 0, whatever its batch, window, capacity or table."
    )
    versions: dict[str, str] = Field(description="Versions of Python and of the packages that matter.")
    settings: list[SettingInfo] = Field(description="Every setting in force, the limits among them.")


class ErrorExample(BaseModel):
    """A request that meets the error, and the same request mended."""

    before: str = Field(description="What meets the error.")
    after: str = Field(description="The same, mended.")


class ErrorPage(BaseModel):
    """One error of the catalogue."""

    code: str = Field(description="Stable code, as in a problem.")
    status: int = Field(description="HTTP status it is answered with.")
    title: str = Field(description="What is wrong, in general.")
    template: str = Field(description="The message, with {placeholders}.")
    meaning: str = Field(description="What the rule protects.")
    trigger: str = Field(description="When it happens.")
    situations: list[str] = Field(description="Common situations in which it is met.")
    remedies: list[str] = Field(description="How to get rid of it.")
    example: ErrorExample = Field(description="The error met, and mended.")
    related: list[str] = Field(description="Codes of related errors.")


class ErrorList(BaseModel):
    """The whole catalogue."""

    errors: list[ErrorPage] = Field(description="Every error, in a stable order.")
