"""Owns the id of a request: the client's when it is well formed, else a new one."""

import random
import re

from starlette.types import Scope

from service.http.headers import first_value

HEADER = b"x-request-id"
_SCOPE_KEY = "kv_plan.request_id"
_WELL_FORMED = re.compile(r"[A-Za-z0-9._-]{1,64}\Z")


def assign_request_id(scope: Scope) -> str:
    """The id that the request carries from here on."""
    given = first_value(scope["headers"], HEADER)
    request_id = given if given is not None and _WELL_FORMED.match(given) else new_request_id()
    scope[_SCOPE_KEY] = request_id
    return request_id


def new_request_id() -> str:
    """An id that no other request has: 128 random bits in hexadecimal."""
    # An id need not be unguessable. This generator is seeded by the system in every process, forked ones too, and asks
    # it for nothing afterwards; a call into the kernel for each id took a twentieth of a small plan's time.
    return f"{random.getrandbits(128):032x}"


def request_id_of(scope: Scope) -> str:
    """The id of a request that has been assigned one."""
    request_id: str = scope[_SCOPE_KEY]
    return request_id
