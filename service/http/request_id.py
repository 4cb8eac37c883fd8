"""Owns the id of a request: the client's when it is well formed, else a new one."""

import re
import uuid

from starlette.datastructures import Headers
from starlette.types import Scope

HEADER = "x-request-id"
_SCOPE_KEY = "kv_plan.request_id"
_WELL_FORMED = re.compile(r"[A-Za-z0-9._-]{1,64}\Z")


def assign_request_id(scope: Scope) -> str:
    """The id that the request carries from here on."""
    given = Headers(scope=scope).get(HEADER, "")
    request_id = given if _WELL_FORMED.match(given) else new_request_id()
    scope[_SCOPE_KEY] = request_id
    return request_id


def new_request_id() -> str:
    """An id that no other request has."""
    return uuid.uuid4().hex


def request_id_of(scope: Scope) -> str:
    """The id of a request that has been assigned one."""
    request_id: str = scope[_SCOPE_KEY]
    return request_id
