"""Owns what is asked over HTTP: which batches, in which form. A new form of body is one entry here."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from service.bench.batches import BatchShape, draw_batch, table_fields, vector_fields
from service.plan.inputs import PlanInputs

POOL = "bench"


@dataclass(frozen=True, slots=True)
class Body:
    """A request's body and the headers that describe it."""

    content: bytes
    headers: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Form:
    """How a batch travels to the service and how its plan comes back."""

    path: str
    encode: Callable[[PlanInputs], Body]
    decode: Callable[[bytes], Mapping[str, object]]


@dataclass(frozen=True, slots=True)
class HttpScenario:
    """One kind of request. ``request_share`` is how many of them are sent for one small request.

    With ``pool`` the tables are put into a resident pool of the service before.
    """

    name: str
    title: str
    shape: BatchShape
    form: Form
    request_share: float = 1.0
    pool: bool = False

    def inputs(self) -> PlanInputs:
        """The batch."""
        return draw_batch(self.shape)


def json_body(fields: Mapping[str, object]) -> Body:
    """A JSON body without a blank."""
    return Body(json.dumps(fields, separators=(",", ":")).encode(), {"content-type": "application/json"})


def pool_body(inputs: PlanInputs) -> Body:
    """The body that makes the batch's tables resident."""
    return json_body(table_fields(inputs))


def _inline(inputs: PlanInputs) -> Body:
    return json_body(vector_fields(inputs) | table_fields(inputs))


def _with_pool(inputs: PlanInputs) -> Body:
    return json_body(vector_fields(inputs) | {"pool": POOL})


SMALL = BatchShape("small", prefix_lens=(17, 64, 3, 32, 48, 1, 60, 23), rows=9, cols=64)
LARGE = BatchShape("large", prefix_lens=(64,) * 255, rows=256, cols=4096)
INLINE_JSON = Form("/plan", _inline, json.loads)
POOL_JSON = Form("/plan", _with_pool, json.loads)

SCENARIOS = (
    HttpScenario("small_inline", "small batch, table inline", SMALL, INLINE_JSON),
    HttpScenario("small_pool", "small batch, table in a pool (inline for plain FastAPI)", SMALL, POOL_JSON, pool=True),
    HttpScenario("large_json", "table of 256 x 4096 as JSON", LARGE, INLINE_JSON, request_share=0.02),
)
