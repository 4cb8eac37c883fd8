"""Owns how the conditional headers of a request are read."""

import re

from starlette.datastructures import Headers

from service.runtime.pools import Precondition

_TAG = re.compile(r'(W/)?("[^"]*")')
_IN_PLACE_OF_TAGS = "\0"  # which no header has


def precondition_of(headers: Headers) -> Precondition:
    """What If-Match and If-None-Match require of a pool that is to be changed.

    A weak tag in If-Match matches nothing. Where either is malformed the pool is left as it is: If-Match matches
    nothing then, and If-None-Match allows no pool.
    """
    etags = _tags(headers, "if-match", weak_too=False) or frozenset() if "if-match" in headers else None
    if "if-none-match" not in headers:
        return Precondition(etags)
    return Precondition(etags, _tags(headers, "if-none-match", weak_too=True) or frozenset({"*"}))


def is_unchanged(headers: Headers, etag: str) -> bool:
    """Whether the caller of a GET says it has what ``etag`` stands for."""
    return not {"*", etag}.isdisjoint(_tags(headers, "if-none-match", weak_too=True) or ())


def _tags(headers: Headers, name: str, *, weak_too: bool) -> frozenset[str] | None:
    """The entity tags that a header lists, or ``*``; None if it is malformed."""
    listed = ", ".join(headers.getlist(name))
    if listed.strip() == "*":
        return frozenset({"*"})
    between = {part.strip() for part in _TAG.sub(_IN_PLACE_OF_TAGS, listed).split(",")}
    if not between <= {_IN_PLACE_OF_TAGS, ""}:
        return None
    return frozenset(tag for weak, tag in _TAG.findall(listed) if weak_too or not weak)
