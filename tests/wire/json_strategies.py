"""Owns the random JSON that the tests of the decoder share: texts of values, and what damages a body."""

import json

from hypothesis import strategies as st

from service.spec import (
    INTEGER_RANGE,
    FieldSpec,
    FlagSpec,
    ObjectSpec,
    ObjectsSpec,
    ScalarSpec,
    TensorSpec,
    TextSpec,
)

SPACE = st.sampled_from(["", "", "", " ", "\t", "\r\n", " " * 30])
EDGES = {dtype: st.sampled_from([0, 1, -1, 9, 10, *INTEGER_RANGE[dtype]]) for dtype in INTEGER_RANGE}
OBJECT_NAMES = ["a", "swa", "n", "lens", "groups", "true", "null", "e", "x-1", "Z_.9", "a" * 64]
TEXTS = [
    "",
    "default",
    "true",
    "null",
    "lens",
    "12",
    "}, ",
    "]}",
    '{"n": 1}',
    ": 1",
    "\\",
    '"',
    "é",
    "x" * 64,
    "𝄞" * 16,
]


@st.composite
def number_text(draw: st.DrawFn, field: TensorSpec | ScalarSpec) -> str:
    value = draw(EDGES[field.dtype] | st.integers(*INTEGER_RANGE[field.dtype]))
    return "-0" if value == 0 and draw(st.booleans()) else str(value)


@st.composite
def array_text(draw: st.DrawFn, field: TensorSpec, shape: tuple[int, ...]) -> str:
    if not shape:
        return draw(number_text(field))
    elements = [draw(array_text(field, shape[1:])) for _ in range(shape[0])]
    return "[" + draw(SPACE) + (draw(SPACE) + "," + draw(SPACE)).join(elements) + draw(SPACE) + "]"


@st.composite
def object_text(draw: st.DrawFn, fields: tuple[FieldSpec, ...]) -> str:
    """A valid object, some arrays in it of another rank than their field's."""
    members = []
    for field in draw(st.permutations(fields)):
        optional = not (
            isinstance(field, ObjectsSpec) or (isinstance(field, TensorSpec | ObjectSpec) and field.required)
        )
        if optional and draw(st.integers(0, 2)):
            continue
        text = "null" if optional and draw(st.integers(0, 3)) == 0 else draw(value_text(field))
        members.append(json.dumps(field.name) + draw(SPACE) + ":" + draw(SPACE) + text)
    return draw(braced(members))


@st.composite
def value_text(draw: st.DrawFn, field: FieldSpec) -> str:
    if isinstance(field, ScalarSpec):
        return draw(number_text(field))
    if isinstance(field, TensorSpec):
        rank = draw(st.just(field.rank) | st.just(field.rank) | st.integers(0, 3))
        return draw(array_text(field, tuple(draw(st.lists(st.integers(0, 4), min_size=rank, max_size=rank)))))
    if isinstance(field, FlagSpec):
        return draw(st.sampled_from(["true", "false"]))
    if isinstance(field, TextSpec):
        return json.dumps(draw(st.sampled_from(TEXTS)), ensure_ascii=draw(st.booleans()))
    if isinstance(field, ObjectSpec):
        return draw(object_text(field.fields))
    names = draw(st.lists(st.sampled_from(OBJECT_NAMES), min_size=1, max_size=field.most, unique=True))
    return draw(braced([f'"{name}"{draw(SPACE)}:{draw(SPACE)}{draw(object_text(field.fields))}' for name in names]))


@st.composite
def braced(draw: st.DrawFn, members: list[str]) -> str:
    inside = (draw(SPACE) + "," + draw(SPACE)).join(members)
    return "{" + draw(SPACE) + inside + draw(SPACE) + "}"


@st.composite
def bodies(draw: st.DrawFn, fields: tuple[FieldSpec, ...]) -> bytes:
    """Valid bodies."""
    return (draw(SPACE) + draw(object_text(fields)) + draw(SPACE)).encode()


@st.composite
def damaged(draw: st.DrawFn, whole: st.SearchStrategy[bytes], fragments: st.SearchStrategy[bytes]) -> bytes:
    """Bodies with bytes flipped, removed, doubled, or replaced by something that a body might hold."""
    body = draw(whole)
    for _ in range(draw(st.integers(1, 2))):
        start = draw(st.integers(0, len(body)))
        stop = min(len(body), start + draw(st.sampled_from([0, 1, 1, 2, 5, 20])))
        how = draw(st.sampled_from(["insert", "replace", "remove", "double", "flip"]))
        if how == "flip":
            middle = bytes(byte ^ 1 << draw(st.integers(0, 7)) for byte in body[start:stop])
        elif how == "double":
            middle = body[start:stop] * 2
        elif how == "remove":
            middle = b""
        else:
            middle = draw(fragments) + (body[start:stop] if how == "insert" else b"")
        body = body[:start] + middle + body[stop:]
    return body
