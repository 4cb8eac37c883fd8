"""What every error answer must be, whatever caused it."""

import httpx

from service.catalogue import CATALOGUE
from service.http.problems import status_of
from tests.running import GOOD_REQUEST, GOOD_SLOTS, InProcess

MOST_BYTES = 16 * 1024
MEMBERS = ["type", "title", "status", "detail", "error", "code", "request_id"]


def require_problem(response: httpx.Response, *codes: str) -> str:
    """Accept a well-formed problem that has one of ``codes``, if any are given. Returns its detail."""
    assert response.headers["content-type"] == "application/problem+json"
    assert len(response.content) < MOST_BYTES
    problem = response.json()
    assert list(problem) == MEMBERS + ["loc"] * ("loc" in problem)
    code = problem["code"]
    assert not codes or code in codes, problem["detail"]
    assert problem["type"] == f"/errors/{code}"
    assert problem["title"] == CATALOGUE[code].title
    assert problem["status"] == response.status_code >= 400
    assert problem["status"] == status_of(code) or code in ("bad-request", "internal-error")
    assert problem["error"] == problem["detail"] != ""
    assert problem["request_id"] == response.headers["x-request-id"] != ""
    assert ("retry-after" in response.headers) == (response.status_code in (429, 503))
    detail: str = problem["detail"]
    return detail


def require_refused(service: InProcess, response: httpx.Response, *codes: str) -> str:
    """Accept a problem that is the client's fault, and a service that takes the next plan. Returns the detail."""
    detail = require_problem(response, *codes)
    assert response.status_code < 500
    require_good_plan(service)
    return detail


def require_good_plan(service: InProcess) -> None:
    """Accept a service that answers a good plan rightly."""
    response = service.post("/plan", json=GOOD_REQUEST)
    assert response.status_code == 200
    assert response.json()["verify_slot_indices"] == GOOD_SLOTS
