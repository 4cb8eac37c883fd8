"""Owns the one table of the plan's fields: name, shape, dtype, default and meaning. Knows neither torch nor HTTP."""

from dataclasses import dataclass
from typing import ClassVar, Literal

Dtype = Literal["int32", "int64"]

INTEGER_RANGE: dict[Dtype, tuple[int, int]] = {
    "int32": (-(2**31), 2**31 - 1),
    "int64": (-(2**63), 2**63 - 1),
}
"""Smallest and largest value of each dtype, both included."""


OBJECT_NAME_PATTERN = "[A-Za-z][A-Za-z0-9_.-]{0,63}"
"""Names that a caller may choose for objects of a body."""
POOL_NAME_PATTERN = "[A-Za-z0-9][A-Za-z0-9._-]{0,63}"
"""Names of pools."""


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """One tensor: its public name, the names of its axes, its dtype and what it means."""

    name: str
    axes: tuple[str, ...]
    dtype: Dtype
    sentence: str
    required: bool = True
    required_unless: str | None = None
    """Name of a field that takes the place of a required one."""

    @property
    def rank(self) -> int:
        return len(self.axes)

    @property
    def shape_text(self) -> str:
        """The shape as people write it: ``[rows, cols] int32``."""
        return f"[{', '.join(self.axes)}] {self.dtype}"


@dataclass(frozen=True, slots=True)
class ScalarSpec:
    """One integer: its public name, its dtype, its default (None: derived from the batch) and what it means."""

    name: str
    dtype: Dtype
    sentence: str
    default: int | None = None
    minimum: int | None = None
    """Smallest value that the plan accepts; None: whatever the dtype holds."""
    required: ClassVar[bool] = False


@dataclass(frozen=True, slots=True)
class TextSpec:
    """One string that names something: its public name, what it means, and the pattern of all that it may be."""

    name: str
    sentence: str
    pattern: str
    required: ClassVar[bool] = False


@dataclass(frozen=True, slots=True)
class FlagSpec:
    """One boolean: its public name, what it means and its default."""

    name: str
    sentence: str
    default: bool
    required: ClassVar[bool] = False


@dataclass(frozen=True, slots=True)
class ObjectSpec:
    """One object with fields of its own."""

    name: str
    fields: tuple["FieldSpec", ...]
    sentence: str
    required: bool = False


@dataclass(frozen=True, slots=True)
class ObjectsSpec:
    """Objects of one kind under names that the caller chooses, in the caller's order. At least one.

    The names are of ``OBJECT_NAME_PATTERN``.
    """

    name: str
    fields: tuple["FieldSpec", ...]
    sentence: str
    most: int
    """Most objects that there may be."""
    required: ClassVar[bool] = True


FieldSpec = TensorSpec | ScalarSpec | TextSpec | FlagSpec | ObjectSpec | ObjectsSpec
"""Anything that a body may hold."""

REQ_POOL_INDICES = TensorSpec(
    "req_pool_indices",
    ("bs",),
    "int64",
    "Row of `req_to_token` of each request of the batch. 0 marks a padding row: it is inactive, "
    "and its other values are neither used nor judged.",
)
PREFIX_LENS = TensorSpec(
    "prefix_lens",
    ("bs",),
    "int64",
    "Tokens of each request that are already cached. Negative counts as 0.",
)
EXTEND_SEQ_LENS = TensorSpec(
    "extend_seq_lens",
    ("bs",),
    "int64",
    "Tokens of each request that are written in this step. Negative counts as 0.",
)
REQ_TO_TOKEN = TensorSpec(
    "req_to_token",
    ("rows", "cols"),
    "int32",
    "The request-to-slot table: cell (row, position) is the slot that holds the token of that row at that position.",
)
SWA_WINDOW_SIZE = ScalarSpec(
    "swa_window_size",
    "int64",
    "Sliding window of the group, in tokens. Above 0 only the last so many cached positions are verified; "
    "0 or less verifies all of them.",
    default=0,
)
FULL_TO_SWA_INDEX_MAPPING = TensorSpec(
    "full_to_swa_index_mapping",
    ("n",),
    "int64",
    "Look-up table from a slot of the full pool to a slot of the window pool. Required when `swa_window_size` > 0, "
    "applied whenever it is given. Negative slots pass through.",
    required=False,
)
VERIFY_CAPACITY = ScalarSpec(
    "verify_capacity",
    "int64",
    "Room for verify entries, above 0. With more entries than that the plan is disabled (`verify_enable` false). "
    "Default: exactly what the batch needs, at least 1.",
    minimum=1,
)
WRITE_REQ_CAPACITY = ScalarSpec(
    "write_req_capacity",
    "int64",
    "Room for write rows, above 0 and at least bs. Default: bs, at least 1.",
    minimum=1,
)
EXPECTED_TOKENS = TensorSpec(
    "req_to_verify_expected_tokens",
    ("rows'", "cols'"),
    "int32",
    "The token table: cell (row, position) is the true token id of that row at that position.",
    required=False,
)
EXPECTED_TOKENS_VALID_LENS = TensorSpec(
    "req_to_verify_expected_tokens_valid_lens",
    ("bs",),
    "int64",
    "How many leading tokens of each request's row of the token table can be trusted. Required with the token table, "
    "ignored without it.",
    required=False,
)
TOKEN_OFFSET = ScalarSpec(
    "kv_token_id_vs_position_offset",
    "int32",
    "Added to the position before the token look-up: 0 for a target model, 1 for an EAGLE draft model.",
    default=0,
)

PLAN_INPUTS: tuple[TensorSpec | ScalarSpec, ...] = (
    REQ_POOL_INDICES,
    PREFIX_LENS,
    EXTEND_SEQ_LENS,
    REQ_TO_TOKEN,
    SWA_WINDOW_SIZE,
    FULL_TO_SWA_INDEX_MAPPING,
    VERIFY_CAPACITY,
    WRITE_REQ_CAPACITY,
    EXPECTED_TOKENS,
    EXPECTED_TOKENS_VALID_LENS,
    TOKEN_OFFSET,
)
"""Every input of a plan. This order is the contract's "input order": checks that name a field follow it."""


@dataclass(frozen=True, slots=True)
class OutputSpec:
    """One field of an answer: its name, its shape and dtype as text, and what it means."""

    name: str
    kind: Literal["array", "integer", "boolean", "string"]
    shape_text: str
    sentence: str
    entries: bool = False
    """Whether the field belongs to the verify entries, which `/plan/offsets` leaves out."""


PLAN_OUTPUTS: tuple[OutputSpec, ...] = (
    OutputSpec(
        "verify_offsets",
        "array",
        "[bs+1] int64",
        "Exclusive prefix sums of the verify entries per request: the entries of request r are "
        "verify_offsets[r] to verify_offsets[r+1]-1. The last is the total.",
    ),
    OutputSpec("verify_total", "integer", "int64", "Verify entries that the batch needs, also when they overflow."),
    OutputSpec(
        "verify_num_valid",
        "integer",
        "int64",
        "Entries in use: the total, or the capacity when the total exceeds it.",
    ),
    OutputSpec(
        "verify_enable",
        "boolean",
        "bool",
        "False when the total exceeds the capacity: no entry is written then, and the step must not be verified.",
    ),
    OutputSpec(
        "verify_slot_indices",
        "array",
        "[verify_num_valid] int64, [0] when not enabled",
        "Slot to verify, translated by the look-up table if one is given.",
        entries=True,
    ),
    OutputSpec(
        "verify_expected_tokens",
        "array",
        "[verify_num_valid] int64, [0] when not enabled",
        "Token id that the slot must hold; -1 where the token table has none to trust.",
        entries=True,
    ),
    OutputSpec(
        "verify_expected_positions",
        "array",
        "[verify_num_valid] int64, [0] when not enabled",
        "Position in the sequence that the slot must hold.",
        entries=True,
    ),
    OutputSpec(
        "verify_prev_slot_indices",
        "array",
        "[verify_num_valid] int64, [0] when not enabled",
        "Slot of the preceding position, translated likewise; -1 at position 0. "
        "The head of a window keeps its real predecessor.",
        entries=True,
    ),
    OutputSpec(
        "write_offsets",
        "array",
        "[write_req_capacity+1] int64",
        "Exclusive prefix sums of the tokens written per request; element bs is the total, those after it are 0.",
    ),
    OutputSpec(
        "write_seed_slot_indices",
        "array",
        "[bs] int64",
        "Slot that each request's hash chain continues from: that of its last cached token, or -1 "
        "for a request with no cached token or nothing to write.",
    ),
    OutputSpec("write_num_valid_reqs", "integer", "int64", "Requests of the batch, padding rows included."),
    OutputSpec("device", "string", "string", "Device that computed the plan, for example `cuda:0`."),
    OutputSpec("backend", "string", "string", "Code that computed the plan: `triton` or `host`."),
)
"""Every field of a plan, in the order in which it is answered."""
