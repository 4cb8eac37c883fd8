"""Owns the settings: typed, read from KV_PLAN_* variables when asked for, unknown ones refused."""

import difflib
from collections.abc import Mapping
from typing import Literal

from pydantic import Field, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

PREFIX = "KV_PLAN_"
_MIB = 2**20


class SettingsError(ValueError):
    """Settings that cannot be used; the message names the variable."""


class Settings(BaseSettings):
    """Every setting of the service. Units end the names."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True, extra="forbid")

    host: str = Field(default="127.0.0.1", min_length=1, description="Address to listen on.")
    port: int = Field(default=8000, ge=0, le=65535, description="Port to listen on; 0 takes a free one.")
    workers: int = Field(
        default=1,
        ge=1,
        le=64,
        description="Server processes. On several GPUs each takes one of its own, unless KV_PLAN_DEVICE names one. "
        "Pools need 1.",
    )
    root_path: str = Field(
        default="",
        pattern=r"^(/[A-Za-z0-9._~-]+)*$",
        description="Prefix that a proxy strips, for example /kv, for the links of /docs.",
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="Least level that is logged."
    )
    keep_alive_seconds: int = Field(
        default=75,
        ge=1,
        description="How long a connection is kept that brings no whole request head, or takes nothing of its answer.",
    )
    device: str = Field(
        default="auto",
        pattern=r"^(auto|cpu|cuda(:(0|[1-9][0-9]?))?)$",
        description="Device of every tensor: cpu, cuda, cuda:N, or auto (cuda if there is one, else cpu).",
    )
    kernels: Literal["auto", "triton", "host"] = Field(
        default="auto",
        description="Code that computes plans. auto: triton on CUDA, host on the CPU. triton on the CPU needs "
        "TRITON_INTERPRET=1 and is for tests.",
    )
    max_body_bytes: int = Field(default=64 * _MIB, ge=1, description="Largest request body.")
    max_requests: int = Field(
        default=2**20, ge=1, description="Most requests in a batch, and largest write_req_capacity."
    )
    max_table_cells: int = Field(default=2**26, ge=1, description="Most cells in a table or look-up table.")
    max_verify_entries: int = Field(default=2**22, ge=1, description="Most verify entries in one answer.")
    max_resident_bytes: int = Field(
        default=2**30, ge=0, description="Bytes that the tables of all pools may take; those used longest ago go first."
    )
    max_queued_requests: int = Field(
        default=64, ge=1, description="Most requests in progress at once, those whose bodies are arriving among them."
    )
    body_timeout_seconds: float = Field(
        default=20.0, gt=0, le=86400, description="Longest time that a request's body may take to arrive."
    )
    deadline_seconds: float = Field(
        default=30.0, gt=0, le=86400, description="Longest time a plan may take once its body is there."
    )
    inline_body_bytes: int = Field(
        default=128 * 1024,
        ge=0,
        description="Plain bodies up to this size are decoded on the event loop, all others in a thread.",
    )
    codec_threads: int = Field(
        default=2, ge=1, le=64, description="Threads that decode large bodies, and as many that encode large answers."
    )


def variable_of(name: str) -> str:
    """The environment variable of a setting: ``max_body_bytes`` -> ``KV_PLAN_MAX_BODY_BYTES``."""
    return PREFIX + name.upper()


def load_settings(environ: Mapping[str, str]) -> Settings:
    """Settings from the process environment; ``environ`` is searched for names that no setting has.

    Raises ``SettingsError`` naming every variable that is unknown or has a value that its setting cannot take.
    """
    known = {variable_of(name) for name in Settings.model_fields}
    unknown = sorted(name for name in environ if name.upper().startswith(PREFIX) and name.upper() not in known)
    if unknown:
        raise SettingsError("; ".join(_unknown_text(name, known) for name in unknown))
    try:
        return Settings()
    except ValidationError as error:
        faults = [f"{variable_of(str(fault['loc'][0]))}: {fault['msg']}" for fault in error.errors()]
        raise SettingsError("; ".join(faults)) from error


def _unknown_text(name: str, known: set[str]) -> str:
    close = difflib.get_close_matches(name.upper(), known, n=1)
    return f"{name}: no such setting" + (f", did you mean {close[0]}?" if close else "")
