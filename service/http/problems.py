"""Turns errors into application/problem+json. The only module that knows which status an error has."""

from typing import cast

import orjson
from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException

from service.catalogue import CATALOGUE
from service.errors import Refusal, refusal
from service.http.request_id import request_id_of

PROBLEM_JSON = "application/problem+json"
RETRY_AFTER_SECONDS = 1

STATUS_OF: dict[str, int] = {
    "malformed-json": 400,
    "duplicate-field": 400,
    "nesting-too-deep": 400,
    "bad-request": 400,
    "not-found": 404,
    "pool-not-found": 404,
    "method-not-allowed": 405,
    "body-timeout": 408,
    "pool-version-conflict": 409,
    "pool-precondition-failed": 412,
    "body-too-large": 413,
    "unsupported-media-type": 415,
    "unsupported-content-encoding": 415,
    "queue-full": 429,
    "headers-too-large": 431,
    "internal-error": 500,
    "pools-need-one-worker": 501,
    "not-ready": 503,
    "shutting-down": 503,
    "out-of-memory": 503,
    "deadline-exceeded": 504,
    "resident-budget-exceeded": 507,
}
"""Status of every error that is not a 422."""

RETRYABLE = {429, 503}
_CLOSING = {"body-too-large", "body-timeout", "shutting-down"}
"""Errors after which the rest of the request is not read."""
_CODE_OF_STATUS = {404: "not-found", 405: "method-not-allowed"}


def status_of(code: str) -> int:
    """The HTTP status of an error code."""
    return STATUS_OF.get(code, 422)


def problem_response(error: Refusal, request_id: str, status: int | None = None) -> Response:
    """The answer for a refused request: problem+json whose ``detail`` and ``error`` are the error's message."""
    status = status_of(error.code) if status is None else status
    headers = {"x-request-id": request_id}
    if status in RETRYABLE:
        headers["retry-after"] = str(RETRY_AFTER_SECONDS)
    if error.code in _CLOSING:
        headers["connection"] = "close"
    return Response(problem_body(error, request_id, status), status, headers, PROBLEM_JSON)


def framework_problem(status: int, request_id: str) -> Response:
    """The answer in place of one that the framework made for an error ``status``; its words are not kept."""
    code = _CODE_OF_STATUS.get(status, "bad-request" if status < 500 else "internal-error")
    return problem_response(refusal(code), request_id, status)


def problem_body(error: Refusal, request_id: str, status: int) -> bytes:
    """The JSON of a problem."""
    problem: dict[str, object] = {
        "type": f"/errors/{error.code}",
        "title": CATALOGUE[error.code].title,
        "status": status,
        "detail": error.detail,
        "error": error.detail,
        "code": error.code,
        "request_id": request_id,
    }
    if error.loc:
        problem["loc"] = error.loc
    return orjson.dumps(problem)


def install_problem_handlers(app: FastAPI) -> None:
    """Make every refusal, and every error of the framework, answer as a problem."""
    app.add_exception_handler(Refusal, _answer_refusal)
    app.add_exception_handler(HTTPException, _answer_framework_error)


async def _answer_refusal(request: Request, error: Exception) -> Response:
    return problem_response(cast(Refusal, error), request_id_of(request.scope))


async def _answer_framework_error(request: Request, error: Exception) -> Response:
    fault = cast(HTTPException, error)
    response = framework_problem(fault.status_code, request_id_of(request.scope))
    response.headers.update(fault.headers or {})
    return response
