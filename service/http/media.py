"""Owns which media types a JSON route reads."""

from email.message import Message
from functools import lru_cache

from starlette.datastructures import Headers

from service.errors import refusal
from service.http.headers import first_value

_SHOWN_CHARACTERS = 80
_REMEMBERED_TYPES = 32
"""A process meets a handful of media types; a client that invents more of them only has them parsed."""


def require_json(headers: Headers) -> None:
    """Accept a request that says its body is uncompressed UTF-8 JSON, or says nothing of it."""
    encoding = (first_value(headers.raw, b"content-encoding") or "identity").strip().lower()
    if encoding not in ("", "identity"):
        raise refusal("unsupported-content-encoding", have=_shown(encoding))
    given = first_value(headers.raw, b"content-type")
    if given is not None and not _is_json(given):
        raise refusal("unsupported-media-type", have=_shown(given))


@lru_cache(_REMEMBERED_TYPES)
def _is_json(content_type: str) -> bool:
    message = Message()
    message["content-type"] = content_type
    kind = message.get_content_type()
    charset = str(message.get_param("charset", "utf-8")).lower()
    return (kind == "application/json" or (kind.startswith("application/") and kind.endswith("+json"))) and charset in (
        "utf-8",
        "utf8",
    )


def _shown(value: str) -> str:
    """A header as a message may show it: printable ASCII, and not much of it."""
    return "".join(character if character.isprintable() and character.isascii() else "?" for character in value)[
        :_SHOWN_CHARACTERS
    ]
