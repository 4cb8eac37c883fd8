"""Owns how the conditional headers of a request are read."""

import re
from dataclasses import replace

from starlette.datastructures import Headers

from service.runtime.pools import Precondition

_TAG = re.compile(r'(W/)?("[^"]*")')


def change_precondition(headers: Headers) -> Precondition:
    """What If-Match requires of a pool that is to be changed. A malformed or weak tag matches nothing."""
    return Precondition(etags=_tags(headers, "if-match", weak_too=False) if "if-match" in headers else None)


def put_precondition(headers: Headers) -> Precondition:
    """The same of one that is to be stored, and what If-None-Match requires: malformed, that there is no pool."""
    if "if-none-match" not in headers:
        return change_precondition(headers)
    forbidden = _tags(headers, "if-none-match", weak_too=True) or frozenset({"*"})
    return replace(change_precondition(headers), other_etags=forbidden)


def is_unchanged(headers: Headers, etag: str) -> bool:
    """Whether the caller of a GET says it has what ``etag`` stands for."""
    return bool(_tags(headers, "if-none-match", weak_too=True) & {"*", etag})


def _tags(headers: Headers, name: str, *, weak_too: bool) -> frozenset[str]:
    listed = ", ".join(headers.getlist(name))
    if listed.strip() == "*":
        return frozenset({"*"})
    return frozenset(tag for weak, tag in _TAG.findall(listed) if weak_too or not weak)
