"""Owns how the conditional headers of a request are read."""

import re

from starlette.datastructures import Headers

from service.runtime.pools import Precondition

_STRONG_TAG = re.compile(r'(?<!W/)"[^"]*"')


def precondition_of(headers: Headers) -> Precondition:
    """What If-Match and If-None-Match require of a pool. A weak or malformed tag matches nothing."""
    if_match = headers.get("if-match")
    return Precondition(
        etags=None if if_match is None else _tags(if_match),
        absent=headers.get("if-none-match", "").strip() == "*",
    )


def is_unchanged(headers: Headers, etag: str) -> bool:
    """Whether the caller of a GET says it has what ``etag`` stands for."""
    if_none_match = headers.get("if-none-match", "")
    return if_none_match.strip() == "*" or etag in if_none_match.replace("W/", "").replace(" ", "").split(",")


def _tags(header: str) -> frozenset[str]:
    return frozenset({"*"} if header.strip() == "*" else _STRONG_TAG.findall(header))
