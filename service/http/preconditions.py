"""Owns how the conditional headers of a request are read."""

import re

from starlette.datastructures import Headers

from service.runtime.pools import Precondition

_TAG = re.compile(r'(W/)?("[^"]*")')


def precondition_of(headers: Headers) -> Precondition:
    """What If-Match and If-None-Match require of a pool. A weak or malformed tag matches nothing."""
    if_match = headers.getlist("if-match")
    return Precondition(
        etags=_strong_tags(", ".join(if_match)) if if_match else None,
        absent=headers.get("if-none-match", "").strip() == "*",
    )


def is_unchanged(headers: Headers, etag: str) -> bool:
    """Whether the caller of a GET says it has what ``etag`` stands for."""
    if_none_match = ", ".join(headers.getlist("if-none-match"))
    return if_none_match.strip() == "*" or any(etag == tag for _, tag in _TAG.findall(if_none_match))


def _strong_tags(header: str) -> frozenset[str]:
    return frozenset({"*"} if header.strip() == "*" else (tag for weak, tag in _TAG.findall(header) if not weak))
