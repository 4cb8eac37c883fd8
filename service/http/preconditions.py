"""Owns how the conditional headers of a request are read."""

import re

from starlette.datastructures import Headers

from service.runtime.pools import Precondition

_TAG = re.compile(r'(W/)?("[^"]*")')


def precondition_of(headers: Headers) -> Precondition:
    """What If-Match and If-None-Match require of a pool. A malformed tag matches nothing, a weak one not If-Match."""
    if_match = ", ".join(headers.getlist("if-match"))
    return Precondition(
        etags=_tags(if_match, weak_too=False) if "if-match" in headers else None,
        other_etags=_tags(", ".join(headers.getlist("if-none-match")), weak_too=True),
    )


def is_unchanged(headers: Headers, etag: str) -> bool:
    """Whether the caller of a GET says it has what ``etag`` stands for."""
    return bool(_tags(", ".join(headers.getlist("if-none-match")), weak_too=True) & {"*", etag})


def _tags(header: str, *, weak_too: bool) -> frozenset[str]:
    if header.strip() == "*":
        return frozenset({"*"})
    return frozenset(tag for weak, tag in _TAG.findall(header) if weak_too or not weak)
