"""The measured batches are valid, always the same, and what their names say."""

import json

import pytest

from service.bench.batches import BatchShape, draw_batch, table_fields, vector_fields
from service.bench.equality import expected_plan
from service.bench.http_scenarios import POOL, SCENARIOS, pool_body
from service.bench.kernel_scenarios import (
    COMPARED,
    KERNEL_SCENARIOS,
    LARGEST_BATCH,
    ONE_LONG,
    TEN_SCENARIOS,
    UNIFORM,
    for_the_reference,
)
from service.plan.planner import judge
from tests.cases import inputs_of

SHAPES = [
    BatchShape("plain", (0, 3, 5), rows=3, cols=5),
    BatchShape("full", (0, 3, 5), rows=9, cols=6, extend_len=4, window=2, tokens=True),
]


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_a_batch_is_valid_permuted_and_the_same_each_time(shape: BatchShape) -> None:
    inputs = draw_batch(shape)
    sizes = judge(inputs).sizes
    assert (sizes.bs, sizes.verify_total) == (shape.bs, shape.entries)
    assert sorted(inputs.req_to_token.flatten().tolist()) == list(range(shape.rows * shape.cols))
    assert all(row > 0 for row in inputs.req_pool_indices.tolist())
    again = draw_batch(shape)
    assert all(one.equal(other) for (one, _), (other, _) in zip(inputs.tensors(), again.tensors(), strict=True))


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_its_fields_describe_it(shape: BatchShape) -> None:
    inputs = draw_batch(shape)
    assert expected_plan(inputs_of(vector_fields(inputs) | table_fields(inputs))) == expected_plan(inputs)


def test_http_bodies_have_the_table_inline_or_in_a_pool() -> None:
    bodies = {}
    for scenario in SCENARIOS:
        body = json.loads(scenario.form.encode(scenario.inputs()).content)
        assert ("pool" in body, "req_to_token" in body) == (scenario.pool, not scenario.pool)
        bodies[scenario.name] = body
    assert bodies["small_pool"].pop("pool") == POOL
    table = json.loads(pool_body(next(s for s in SCENARIOS if s.pool).inputs()).content)
    assert bodies["small_pool"] | table == bodies["small_inline"]
    rows = bodies["large_json"]["req_to_token"]
    assert (len(rows), len(rows[0])) == (256, 4096)


def test_the_scenarios_have_the_sizes_that_they_are_known_by() -> None:
    entries = {shape.name: shape.entries for shape in TEN_SCENARIOS}
    assert entries.pop("ragged") == pytest.approx(2_095_100, rel=0.01)
    assert entries == {
        "smoke_decode_empty": 0,
        "prefill_last": 12_288,
        "small_extend": 131_072,
        "decode_mid": 524_288,
        "decode_steady": 1_048_576,
        "large_bs_short": 1_048_576,
        "bs4096": 2_097_152,
        "swa_long": 16_384,
        "swa_short": 32_768,
    }
    assert LARGEST_BATCH.bs == 65_536
    assert (UNIFORM.entries, UNIFORM.bs) == (ONE_LONG.entries, ONE_LONG.bs) == (195_072, 1001)
    assert max(UNIFORM.prefix_lens) - min(UNIFORM.prefix_lens) == 1
    assert all({one, other} <= set(KERNEL_SCENARIOS) and one.entries == other.entries for one, other, _ in COMPARED)
    assert len({shape.name for shape in KERNEL_SCENARIOS}) == len(KERNEL_SCENARIOS)


@pytest.mark.parametrize("shape", KERNEL_SCENARIOS, ids=lambda shape: shape.name)
def test_a_short_scenario_keeps_its_requests_and_its_kind(shape: BatchShape) -> None:
    short = for_the_reference(shape)
    assert (short.bs, short.extend_len, short.window > 0, short.tokens) == (
        shape.bs,
        shape.extend_len,
        shape.window > 0,
        shape.tokens,
    )
    assert short.entries <= max(8192, shape.bs)
    assert short.window == 0 or short.window < max(short.prefix_lens)
    assert judge(draw_batch(short)).sizes.verify_total == short.entries
