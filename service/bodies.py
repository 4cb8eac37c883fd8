"""Owns what the body of each operation holds: the fields of a plan, of groups of plans, of pools and their updates."""

from dataclasses import replace

from service.spec import (
    EXPECTED_TOKENS,
    EXPECTED_TOKENS_VALID_LENS,
    EXTEND_SEQ_LENS,
    FULL_TO_SWA_INDEX_MAPPING,
    PLAN_INPUTS,
    POOL_NAME_PATTERN,
    PREFIX_LENS,
    REQ_POOL_INDICES,
    REQ_TO_TOKEN,
    SWA_WINDOW_SIZE,
    TOKEN_OFFSET,
    VERIFY_CAPACITY,
    WRITE_REQ_CAPACITY,
    FieldSpec,
    FlagSpec,
    ObjectSpec,
    ObjectsSpec,
    ScalarSpec,
    TensorSpec,
    TextSpec,
)

MOST_GROUPS = 16

POOL = TextSpec("pool", "Name of a resident pool, whose tables take the place of those of the body.", POOL_NAME_PATTERN)
POOL_VERSION = ScalarSpec(
    "pool_version", "int64", "Version that the pool must be at, else the answer is 409. Default: any."
)
USE_LUT = FlagSpec(
    f"use_{FULL_TO_SWA_INDEX_MAPPING.name}",
    "Whether slots are translated by the look-up table, if there is one. A group of full attention over a pool with a "
    "look-up table says false.",
    default=True,
)
USE_TOKENS = FlagSpec(
    f"use_{EXPECTED_TOKENS.name}",
    "Whether expected tokens are looked up in the token table, if there is one.",
    default=True,
)
_TABLE = replace(REQ_TO_TOKEN, required_unless=POOL.name)

PLAN_BODY: tuple[FieldSpec, ...] = (
    *(_TABLE if field is REQ_TO_TOKEN else field for field in PLAN_INPUTS),
    POOL,
    POOL_VERSION,
    USE_LUT,
    USE_TOKENS,
)
"""POST /plan and /plan/offsets."""

GROUPS = ObjectsSpec(
    "groups",
    (SWA_WINDOW_SIZE, FULL_TO_SWA_INDEX_MAPPING, VERIFY_CAPACITY, TOKEN_OFFSET, USE_LUT, USE_TOKENS),
    "The pool groups by name, for example `full` and `swa`; each gets a plan of its own.",
    most=MOST_GROUPS,
)
GROUPS_BODY: tuple[FieldSpec, ...] = (
    REQ_POOL_INDICES,
    PREFIX_LENS,
    EXTEND_SEQ_LENS,
    _TABLE,
    WRITE_REQ_CAPACITY,
    EXPECTED_TOKENS,
    EXPECTED_TOKENS_VALID_LENS,
    POOL,
    POOL_VERSION,
    GROUPS,
)
"""POST /plan/groups."""

ROWS = ScalarSpec(
    "rows", "int64", "Rows that the tables have at least; those that are not given hold 0.", default=0, minimum=0
)
COLUMNS = ScalarSpec(
    "columns", "int64", "Columns that the tables have at least; those that are not given hold 0.", default=0, minimum=0
)
POOL_BODY: tuple[FieldSpec, ...] = (REQ_TO_TOKEN, FULL_TO_SWA_INDEX_MAPPING, EXPECTED_TOKENS, ROWS, COLUMNS)
"""PUT /pools/{pool}."""

_SEGMENTS: tuple[FieldSpec, ...] = (
    TensorSpec("flat_in", ("n",), "int32", "The new cells of all segments, laid end to end."),
    TensorSpec("offsets", ("bs+1",), "int64", "Where each segment begins in `flat_in`; the last is its length."),
    TensorSpec("req_pool_indices", ("bs",), "int64", "Row of the table that each segment goes to; none twice."),
    TensorSpec(
        "start_positions",
        ("bs",),
        "int64",
        "Column that each segment begins at, 0 if left out. What runs past the end of its row is cut.",
        required=False,
    ),
)
SLOT_ROWS = ObjectSpec(REQ_TO_TOKEN.name, _SEGMENTS, "New slots for rows of the table.")
TOKEN_ROWS = ObjectSpec(EXPECTED_TOKENS.name, _SEGMENTS, "New tokens for rows of the token table.")
LUT_CELLS = ObjectSpec(
    FULL_TO_SWA_INDEX_MAPPING.name,
    (
        TensorSpec("indices", ("n",), "int64", "Cells of the look-up table, none twice."),
        TensorSpec("values", ("n",), "int64", "What each of them holds from now on."),
    ),
    "New cells of the look-up table.",
)
_UPDATES: tuple[FieldSpec, ...] = (SLOT_ROWS, LUT_CELLS, TOKEN_ROWS)
SCATTER_BODY: tuple[FieldSpec, ...] = (*_UPDATES, POOL_VERSION)
"""POST /pools/{pool}/scatter."""

STEP_SCATTER = ObjectSpec("scatter", _UPDATES, "What changes in the pool before the plan is made.")
STEP_PLAN = ObjectSpec(
    "plan",
    (
        *(field for field in PLAN_INPUTS if field not in (REQ_TO_TOKEN, FULL_TO_SWA_INDEX_MAPPING, EXPECTED_TOKENS)),
        USE_LUT,
        USE_TOKENS,
    ),
    "The batch; its tables are those of the pool.",
    required=True,
)
STEP_BODY: tuple[FieldSpec, ...] = (STEP_SCATTER, STEP_PLAN, POOL_VERSION)
"""POST /pools/{pool}/step."""
