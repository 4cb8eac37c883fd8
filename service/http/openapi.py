"""The parts of the schema that FastAPI cannot derive: raw bodies, worked examples, problems for every status."""

import json
from collections.abc import Sequence
from typing import Any

import orjson
from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel

from service.errors import refusal
from service.http.examples import WorkedExample
from service.http.problems import PROBLEM_JSON, RETRYABLE, problem_body, status_of
from service.http.schemas import PlanOffsetsResponse, PlanRequest, PlanResponse, Problem

Responses = dict[int | str, dict[str, Any]]

TAGS = [
    {"name": "plan", "description": "Compute KV-canary plans."},
    {"name": "operations", "description": "Probes, and what is running."},
    {"name": "errors", "description": "The catalogue of errors: what each means and how to get rid of it."},
]
_RAW_MODELS = (PlanRequest, PlanResponse, PlanOffsetsResponse, Problem)
_REQUEST_ID_HEADER: dict[str, Any] = {"description": "Id of the request.", "schema": {"type": "string"}}
_EXAMPLE_REQUEST_ID = "2f1c8d6e9b7a4f03a5d2c1b0e9f87654"

_PLAN_ERRORS: dict[int, tuple[str, dict[str, dict[str, object]]]] = {
    400: (
        "The body is not JSON that can be read in only one way.",
        {
            "malformed-json": {"reason": "a value is missing", "position": 44},
            "duplicate-field": {"name": "prefix_lens"},
        },
    ),
    408: ("The body did not arrive in time.", {"body-timeout": {"limit": 20.0}}),
    413: ("The body exceeds the size limit.", {"body-too-large": {"limit": 67108864}}),
    415: (
        "The body is said to be something other than plain JSON.",
        {"unsupported-media-type": {"have": "application/octet-stream"}},
    ),
    422: (
        "The batch breaks a rule of the plan, or exceeds a limit of the service.",
        {
            "window-requires-lut": {"caller": "launch_canary_plan_kernels"},
            "row-outside-table": {"index": 1, "value": 900, "rows": 4},
            "value-does-not-fit": {"place": "req_to_token[2][5]", "value": 2147483648, "dtype": "int32"},
            "unknown-field": {"name": '"prefix_len"', "hint": '; did you mean "prefix_lens"?'},
        },
    ),
    429: ("Too many plans are waiting; see Retry-After.", {"queue-full": {"limit": 64}}),
    431: ("The headers exceed the size limit.", {"headers-too-large": {"limit": 65536}}),
    500: ("A defect of the service.", {"internal-error": {}}),
    503: ("The device cannot take the request now; see Retry-After.", {"out-of-memory": {"device": "cuda:0"}}),
    504: ("The plan was not ready within the deadline.", {"deadline-exceeded": {"limit": 30.0}}),
}


def plan_request_body(examples: Sequence[WorkedExample]) -> dict[str, Any]:
    """The request body of a plan route, for ``openapi_extra``."""
    shown = {example.name: {"summary": example.summary, "value": example.request} for example in examples}
    content = {"application/json": {"schema": _reference(PlanRequest), "examples": shown}}
    return {"requestBody": {"required": True, "content": content}}


def plan_responses(model: type[BaseModel], examples: Sequence[WorkedExample]) -> Responses:
    """The answers of a plan route: the plan, and a problem for every status it can have."""
    shown = {example.name: {"summary": example.summary, "value": _answer_of(example, model)} for example in examples}
    content = {"application/json": {"schema": _reference(model), "examples": shown}}
    headers = {
        "x-request-id": _REQUEST_ID_HEADER,
        "server-timing": {"description": "Time of each stage in milliseconds.", "schema": {"type": "string"}},
    }
    problems: Responses = {
        status: problem_answer(description, refusals) for status, (description, refusals) in _PLAN_ERRORS.items()
    }
    return {200: {"description": "The plan.", "content": content, "headers": headers}, **problems}


def problem_answer(description: str, refusals: dict[str, dict[str, object]]) -> dict[str, Any]:
    """One problem answer, with an example made from the catalogue for each code."""
    examples = {code: {"value": _problem_example(code, fields)} for code, fields in refusals.items()}
    headers = {"x-request-id": _REQUEST_ID_HEADER}
    if any(status_of(code) in RETRYABLE for code in refusals):
        headers["retry-after"] = {"description": "Seconds to wait before a retry.", "schema": {"type": "integer"}}
    return {
        "description": description,
        "headers": headers,
        "content": {PROBLEM_JSON: {"schema": _reference(Problem), "examples": examples}},
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
    _drop_framework_422(document["paths"], schemas)
    for model in _RAW_MODELS:
        schemas[model.__name__] = model.model_json_schema()
    document["components"]["schemas"] = dict(sorted(schemas.items()))
    return document


def _drop_framework_422(paths: dict[str, Any], schemas: dict[str, Any]) -> None:
    """Take out the answer that FastAPI assumes of every parameter: no parameter here can fail."""
    for schema in ("HTTPValidationError", "ValidationError"):
        schemas.pop(schema, None)
    for operations in paths.values():
        if "get" in operations:
            operations["get"]["responses"].pop("422", None)


def openapi_text(document: dict[str, Any]) -> str:
    """The schema as ``openapi.json`` holds it."""
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _reference(model: type[BaseModel]) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{model.__name__}"}


def _answer_of(example: WorkedExample, model: type[BaseModel]) -> dict[str, Any]:
    answer = example.response | {"device": "cuda:0", "backend": "triton"}
    return {name: answer[name] for name in model.model_fields}


def _problem_example(code: str, fields: dict[str, object]) -> Any:
    return orjson.loads(problem_body(refusal(code, **fields), _EXAMPLE_REQUEST_ID, status_of(code)))
