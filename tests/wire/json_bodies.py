"""Owns the bodies that the tests of the decoder share: batches built from parts, and how every decoder answers them."""

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np

from service.errors import Refusal
from service.spec import PLAN_INPUTS, FieldSpec, FlagSpec, ObjectSpec, ObjectsSpec, ScalarSpec, TensorSpec, TextSpec
from service.wire.field_rules import Value
from service.wire.int_array import decode_int_array
from service.wire.json_body import BodyReader, decode_any_body, decode_json_body
from service.wire.quick_array import quick_array_reader, wait_for_compiled_loop

Answer = Mapping[str, Value]

_LENS = TensorSpec("lens", ("n",), "int64", "")
_TABLE = TensorSpec("table", ("rows", "cols"), "int32", "", required=False)
_NUMBERS = (ScalarSpec("n", "int64", ""), ScalarSpec("e", "int32", ""), ScalarSpec("true", "int64", ""))
_WORDS = (TextSpec("pool", "", ".*"), FlagSpec("use", "", default=True))
_INNER = ObjectSpec("inner", (_LENS, *_NUMBERS, *_WORDS), "")

NESTED_FIELDS: tuple[FieldSpec, ...] = (
    _LENS,
    *_NUMBERS,
    *_WORDS,
    ObjectSpec("plan", (_LENS, _TABLE, *_NUMBERS, *_WORDS, _INNER), "", required=True),
    ObjectsSpec("groups", (_TABLE, *_NUMBERS, *_WORDS, _INNER), "", most=3),
    _INNER,
)
"""Fields of every kind, at several depths, some under names that are also words of JSON."""

EITHER_FIELDS: tuple[FieldSpec, ...] = (TensorSpec("lens", ("n",), "int64", "", required_unless="pool"), *_WORDS)
"""Fields of which a required one can be replaced by another."""

NESTED = {"lens": "[1]", "plan": '{"lens": [2]}', "groups": '{"a": {}}'}

PIECES = (21, 22, 37, 1024 * 1024)
"""Sizes in which the decoder of any body is made to read its arrays."""

BATCH = {"req_pool_indices": "[1]", "prefix_lens": "[1]", "extend_seq_lens": "[1]", "req_to_token": "[[0], [5]]"}


def batch(**parts: str) -> bytes:
    """A batch as JSON, with the text of some values replaced or added."""
    return ("{" + ", ".join(f"{json.dumps(name)}: {text}" for name, text in {**BATCH, **parts}.items()) + "}").encode()


def nested(**parts: str) -> bytes:
    """A body of ``NESTED_FIELDS`` as JSON, with the text of some values replaced or added."""
    return ("{" + ", ".join(f"{json.dumps(name)}: {text}" for name, text in {**NESTED, **parts}.items()) + "}").encode()


def answers(body: bytes, fields: Sequence[FieldSpec] = PLAN_INPUTS) -> list[Answer | str]:
    """What every decoder answers: the fields, or the message of the refusal."""
    decoders: list[Callable[[], Answer]] = [partial(decode_json_body, body, fields)]
    decoders += [
        partial(decode_any_body, body, fields, BodyReader(partial(decode_int_array, piece_bytes=piece)))
        for piece in PIECES
    ]
    wait_for_compiled_loop()
    decoders.append(partial(decode_any_body, body, fields, BodyReader(quick_array_reader())))
    found: list[Answer | str] = []
    for decode in decoders:
        try:
            found.append(decode())
        except Refusal as fault:
            found.append(str(fault))
    return found


def refusal_message(body: bytes, fields: Sequence[FieldSpec] = PLAN_INPUTS) -> str:
    """The message with which every decoder refuses."""
    (message,) = {answer if isinstance(answer, str) else f"accepted: {answer}" for answer in answers(body, fields)}
    return message


def require_same(have: Answer | str, want: Answer) -> None:
    """Equal names in the same order, values, dtypes and shapes, in arrays that are contiguous."""
    assert not isinstance(have, str), have
    assert list(have) == list(want)
    for name, value in want.items():
        other = have[name]
        if isinstance(value, dict):
            assert isinstance(other, dict)
            require_same(other, value)
        elif isinstance(value, np.ndarray):
            assert isinstance(other, np.ndarray)
            assert (other.dtype, other.shape) == (value.dtype, value.shape)
            assert other.flags.c_contiguous
            np.testing.assert_array_equal(other, value)
        else:
            assert type(other) is type(value)
            assert other == value
