"""Owns what is raised when a call is refused: exceptions that carry a code of the catalogue. Knows no HTTP status."""

from dataclasses import dataclass

from service.catalogue import CATALOGUE


class Refusal(Exception):
    """A refused call: ``code`` is its entry in the catalogue, ``str()`` the message for the caller.

    ``loc`` names the objects of the body, from the outermost, inside which the fault is; the message does not.
    """

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail
        self.loc: tuple[str, ...] = ()


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


def within(*names: str) -> "_Within":
    """Tell a refusal that passes through inside which objects it was raised, from the outermost.

    >>> try:
    ...     with within("groups"), within("swa"):
    ...         raise refusal("missing-field", name="prefix_lens")
    ... except Refusal as fault:
    ...     fault.loc
    ('groups', 'swa')
    """
    return _Within(names)


@dataclass(slots=True)
class _Within:
    """A class, since a generator would cost every plan five times as much."""

    names: tuple[str, ...]

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, fault: BaseException | None, _trace: object) -> None:
        if isinstance(fault, Refusal):
            fault.loc = (*self.names, *fault.loc)
