"""The parts of the schema that FastAPI cannot derive: raw bodies, worked examples, problems for every status."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import orjson
from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel

from service.errors import refusal
from service.http.body_models import (
    GroupPlan,
    PlanGroupsRequest,
    PlanGroupsResponse,
    PlanOffsetsResponse,
    PlanRequest,
    PlanResponse,
    PoolRequest,
    ScatterRequest,
    StepRequest,
)
from service.http.error_examples import ERROR_EXAMPLES
from service.http.examples import WorkedExample
from service.http.problems import PROBLEM_JSON, RETRYABLE, problem_body, status_of
from service.http.schemas import PoolInfo, PoolList, Problem

Responses = dict[int | str, dict[str, Any]]

TAGS = [
    {"name": "plan", "description": "Compute KV-canary plans."},
    {"name": "pools", "description": "Tables that are sent once and stay on the device."},
    {"name": "operations", "description": "Probes, and what is running."},
    {"name": "errors", "description": "The catalogue of errors: what each means and how to get rid of it."},
]
_RAW_MODELS = (
    PlanRequest,
    PlanResponse,
    PlanOffsetsResponse,
    PlanGroupsRequest,
    PlanGroupsResponse,
    GroupPlan,
    PoolRequest,
    ScatterRequest,
    StepRequest,
    PoolInfo,
    PoolList,
    Problem,
)
_COMPONENT = "#/components/schemas/{model}"
REQUEST_ID_HEADER: dict[str, Any] = {
    "x-request-id": {"description": "Id of the request.", "schema": {"type": "string"}}
}
TIMING_HEADER: dict[str, Any] = {
    "server-timing": {"description": "Time of each stage in milliseconds.", "schema": {"type": "string"}}
}
_EXAMPLE_REQUEST_ID = "2f1c8d6e9b7a4f03a5d2c1b0e9f87654"
_SIGNATURE = {"device": "cuda:0", "backend": "triton"}


def request_body(model: type[BaseModel], examples: Sequence[WorkedExample]) -> dict[str, Any]:
    """The request body of a raw route, for ``openapi_extra``."""
    shown = {example.name: {"summary": example.summary, "value": example.request} for example in examples}
    content = {"application/json": {"schema": reference(model), "examples": shown}}
    return {"requestBody": {"required": True, "content": content}}


def json_answer(
    description: str, model: type[BaseModel], examples: Sequence[WorkedExample], headers: Mapping[str, Any]
) -> dict[str, Any]:
    """An answer of a raw route that is no problem."""
    shown = {example.name: {"summary": example.summary, "value": _answer_of(example, model)} for example in examples}
    content = {"application/json": {"schema": reference(model), "examples": shown}}
    return {"description": description, "content": content, "headers": {**REQUEST_ID_HEADER, **headers}}


def plan_responses(model: type[BaseModel], examples: Sequence[WorkedExample]) -> Responses:
    """The answers of a plan route: the plan, and a problem for every status it can have."""
    plan = json_answer("The plan.", model, examples, TIMING_HEADER)
    return {200: plan, **problems(*BODY_STATUSES, 404, 409, 501, 504)}


BODY_STATUSES = (400, 408, 413, 415, 422, 429, 431, 500, 503)
"""Statuses of the problems that any route with a body can answer."""


def problems(*statuses: int) -> Responses:
    """A problem answer for each status."""
    return {status: problem_answer(*ERROR_EXAMPLES[status]) for status in sorted(statuses)}


def problem_answer(description: str, refusals: Mapping[str, Mapping[str, object]]) -> dict[str, Any]:
    """One problem answer, with an example made from the catalogue for each code."""
    examples = {code: {"value": _problem_example(code, fields)} for code, fields in refusals.items()}
    headers = dict(REQUEST_ID_HEADER)
    if any(status_of(code) in RETRYABLE for code in refusals):
        headers["retry-after"] = {"description": "Seconds to wait before a retry.", "schema": {"type": "integer"}}
    return {
        "description": description,
        "headers": headers,
        "content": {PROBLEM_JSON: {"schema": reference(Problem), "examples": examples}},
    }


def build_openapi(app: FastAPI) -> dict[str, Any]:
    """The schema of the service, the models of its raw routes included."""
    document = get_openapi(
        title=app.title,
        version=app.version,
        summary=app.summary,
        description=app.description,
        routes=app.routes,
        tags=TAGS,
    )
    schemas = document.setdefault("components", {}).setdefault("schemas", {})
    _drop_framework_422(document["paths"].values(), schemas)
    for model in _RAW_MODELS:
        schema = model.model_json_schema(ref_template=_COMPONENT)
        schemas |= schema.pop("$defs", {})
        schemas[model.__name__] = schema
    document["components"]["schemas"] = dict(sorted(schemas.items()))
    return document


def _drop_framework_422(paths: Iterable[dict[str, Any]], schemas: dict[str, Any]) -> None:
    """Take out the answer that FastAPI assumes of every parameter of a GET that is not ours: none can fail."""
    for schema in ("HTTPValidationError", "ValidationError"):
        schemas.pop(schema, None)
    for operations in paths:
        answers = operations.get("get", {}).get("responses", {})
        if "422" in answers and PROBLEM_JSON not in answers["422"]["content"]:
            del answers["422"]


def openapi_text(document: dict[str, Any]) -> str:
    """The schema as ``openapi.json`` holds it."""
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def reference(model: type[BaseModel]) -> dict[str, str]:
    """Where the schema of a model is."""
    return {"$ref": _COMPONENT.format(model=model.__name__)}


def _answer_of(example: WorkedExample, model: type[BaseModel]) -> dict[str, Any]:
    answer = example.response | _SIGNATURE
    return {name: answer[name] for name in model.model_fields if name in answer}


def _problem_example(code: str, fields: Mapping[str, object]) -> Any:
    return orjson.loads(problem_body(refusal(code, **fields), _EXAMPLE_REQUEST_ID, status_of(code)))
