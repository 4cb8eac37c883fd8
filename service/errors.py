"""Owns what is raised when a call is refused: exceptions that carry a code of the catalogue. Knows no HTTP status."""

from service.catalogue import CATALOGUE


class Refusal(Exception):
    """A refused call: ``code`` is its entry in the catalogue, ``str()`` the message for the caller."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail


class InvalidInput(Refusal, ValueError):
    """An input that breaks a rule of the plan. A ValueError, with the same message in process and over HTTP."""


class InvalidDtype(Refusal, TypeError):
    """A scatter tensor of the wrong dtype. A TypeError in process, as engines expect."""


class ServingRefusal(Refusal):
    """A request that the service cannot take, though the planner might."""


_CLASSES: dict[str, type[Refusal]] = {"value": InvalidInput, "dtype": InvalidDtype, "serving": ServingRefusal}


def refusal(code: str, **fields: object) -> Refusal:
    """The exception to raise for ``code``, its message made from the catalogue's template.

    >>> raise refusal("wrong-length", name="prefix_lens", want=2, have=3)
    Traceback (most recent call last):
    service.errors.InvalidInput: kv-canary: prefix_lens length must be 2, got 3
    """
    entry = CATALOGUE[code]
    return _CLASSES[entry.kind](code, entry.template.format(**fields))
