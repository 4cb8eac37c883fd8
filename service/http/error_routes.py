"""The routes that explain errors, from the catalogue."""

from dataclasses import asdict
from typing import Annotated

from fastapi import APIRouter, Path

from service.catalogue import CATALOGUE, ErrorEntry
from service.errors import refusal
from service.http.openapi import problem_answer
from service.http.problems import status_of
from service.http.schemas import ErrorList, ErrorPage


def error_router() -> APIRouter:
    """``GET /errors`` and ``/errors/{code}``."""
    router = APIRouter(tags=["errors"])

    @router.get("/errors", operation_id="list_errors", summary="Every error of the service")
    async def list_errors() -> ErrorList:
        """The whole catalogue, in a stable order."""
        return ErrorList(errors=[_page(entry) for entry in CATALOGUE.values()])

    @router.get(
        "/errors/{code}",
        operation_id="get_error",
        summary="One error explained",
        responses={404: problem_answer("There is no such error.", {"not-found": {}})},
    )
    async def get_error(code: Annotated[str, Path(description="Code of an error, as in a problem.")]) -> ErrorPage:
        """What the error means, when it happens and how to get rid of it; a problem's `type` points here."""
        if code not in CATALOGUE:
            raise refusal("not-found")
        return _page(CATALOGUE[code])

    return router


def _page(entry: ErrorEntry) -> ErrorPage:
    return ErrorPage.model_validate({**asdict(entry), "status": status_of(entry.code)})
