"""Plans of a few requests from Python integers, where the calls into numpy would cost more than the work.

It only accepts: whatever breaks a rule, or is not plainly right, is left to the planner, which judges and words it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np
import numpy.typing as npt

from service.kernels.host_batch import Ints
from service.kernels.operands import INT64_MAX, NO_SLOT, NO_TOKEN, PADDING_ROW
from service.plan.tables import Tables
from service.spec import (
    EXPECTED_TOKENS_VALID_LENS,
    EXTEND_SEQ_LENS,
    PREFIX_LENS,
    REQ_POOL_INDICES,
    SWA_WINDOW_SIZE,
    TOKEN_OFFSET,
    VERIFY_CAPACITY,
    WRITE_REQ_CAPACITY,
)

MOST_REQUESTS = 16
"""Batches of more are quicker with numpy."""


class NotPlain(Exception):
    """Only the planner can tell what these inputs amount to."""


@dataclass(frozen=True, slots=True)
class HostTables:
    """The tables as arrays on the CPU, of whatever rank they were given."""

    slots: npt.NDArray[np.int32]
    lut: Ints | None
    tokens: npt.NDArray[np.int32] | None

    def without(self, *, lut: bool, tokens: bool) -> "HostTables":
        """The same without the look-up table, the token table, or both."""
        return HostTables(self.slots, None if lut else self.lut, None if tokens else self.tokens)


def host_tables(tables: Tables) -> HostTables | None:
    """The memory of ``tables`` as arrays; None if it is not on the CPU."""
    slots, lut, tokens = tables.req_to_token, tables.full_to_swa_index_mapping, tables.req_to_verify_expected_tokens
    if slots.device.type != "cpu":
        return None
    return HostTables(slots.numpy(), None if lut is None else lut.numpy(), None if tokens is None else tokens.numpy())


@dataclass(frozen=True, slots=True)
class FewRequests:
    """A judged batch: of each request its row, the positions [first, prefix) that it verifies, and its new tokens."""

    rows: Sequence[int]
    firsts: Sequence[int]
    prefixes: Sequence[int]
    extends: Sequence[int]
    valid_lens: Sequence[int]
    shift: int
    verify_capacity: int | None
    write_req_capacity: int
    tables: HostTables

    def answer(self, *, with_entries: bool, most_entries: int) -> dict[str, object]:
        """The fields of the plan, as ``service.spec.PLAN_OUTPUTS`` names and orders them, device and backend aside.

        Raises ``NotPlain`` for a slot outside the look-up table, and for more entries or write rows than
        ``most_entries``.
        """
        if self.write_req_capacity > most_entries:
            raise NotPlain
        lens = [prefix - first for prefix, first in zip(self.prefixes, self.firsts, strict=True)]
        offsets = [0, *accumulate(lens)]
        total, capacity = offsets[-1], self.verify_capacity or max(offsets[-1], 1)
        fields: dict[str, object] = {
            "verify_offsets": offsets,
            "verify_total": total,
            "verify_num_valid": min(total, capacity),
            "verify_enable": total <= capacity,
        }
        if with_entries and most_entries < total <= capacity:
            raise NotPlain
        if with_entries:
            fields |= self._entries(range(len(self.rows)) if total <= capacity else ())
        write_offsets = [0, *accumulate(self.extends)]
        if write_offsets[-1] > INT64_MAX:
            raise NotPlain
        fields["write_offsets"] = write_offsets + [0] * (self.write_req_capacity - len(self.rows))
        fields["write_seed_slot_indices"] = [self._seed(r) for r in range(len(self.rows))]
        fields["write_num_valid_reqs"] = len(self.rows)
        return fields

    def _entries(self, requests: Sequence[int]) -> dict[str, object]:
        slots: list[int] = []
        expected: list[int] = []
        positions: list[int] = []
        prev_slots: list[int] = []
        table, has_tokens = self.tables.slots, self.tables.tokens is not None
        for r in requests:
            first, prefix = self.firsts[r], self.prefixes[r]
            if first == prefix:
                continue
            if first:
                cells = self._translated(table[self.rows[r], first - 1 : prefix].tolist())
                slots += cells[1:]
            else:
                cells = self._translated(table[self.rows[r], :prefix].tolist())
                slots += cells
                prev_slots.append(NO_SLOT)
            prev_slots += cells[:-1]
            positions += range(first, prefix)
            if has_tokens:
                expected += self._tokens(r)
        return {
            "verify_slot_indices": slots,
            "verify_expected_tokens": expected or [NO_TOKEN] * len(slots),
            "verify_expected_positions": positions,
            "verify_prev_slot_indices": prev_slots,
        }

    def _tokens(self, r: int) -> list[int]:
        """Expected tokens at the positions of request r: NO_TOKEN where the token table has none to trust."""
        first, prefix = self.firsts[r], self.prefixes[r]
        tokens = self.tables.tokens
        known = max(first, -self.shift)
        stop = min(prefix, self.valid_lens[r] - self.shift)
        if tokens is None or known >= stop:
            return [NO_TOKEN] * (prefix - first)
        found: list[int] = tokens[self.rows[r], known + self.shift : stop + self.shift].tolist()
        return [NO_TOKEN] * (known - first) + found + [NO_TOKEN] * (prefix - stop)

    def _seed(self, r: int) -> int:
        if not (self.extends[r] and self.prefixes[r]):
            return NO_SLOT
        return self._translated([self.tables.slots.item(self.rows[r], self.prefixes[r] - 1)])[0]

    def _translated(self, slots: list[int]) -> list[int]:
        lut = self.tables.lut
        if lut is None:
            return slots
        if max(slots) >= len(lut):
            raise NotPlain
        look_up = lut.item
        return [slot if slot < 0 else look_up(slot) for slot in slots]


def judge_few_requests(fields: Mapping[str, Any], tables: HostTables) -> FewRequests:
    """The batch that the decoded fields of a body amount to over ``tables``. Raises ``NotPlain``."""
    vectors = [fields[spec.name] for spec in (REQ_POOL_INDICES, PREFIX_LENS, EXTEND_SEQ_LENS)]
    lens = None if tables.tokens is None else fields.get(EXPECTED_TOKENS_VALID_LENS.name)
    window = fields.get(SWA_WINDOW_SIZE.name, 0)
    _judge_form(vectors if lens is None else [*vectors, lens], tables)
    rows, prefixes, extends = (vector.tolist() for vector in vectors)
    capacity, write_req_capacity = fields.get(VERIFY_CAPACITY.name), fields.get(WRITE_REQ_CAPACITY.name)
    least = max(len(rows), 1)
    if (
        (tables.tokens is not None and lens is None)
        or (tables.lut is None and window > 0)
        or (capacity is not None and capacity <= 0)
        or (write_req_capacity is not None and write_req_capacity < least)
    ):
        raise NotPlain
    _judge_values(rows, prefixes, tables.slots)
    valid_lens = [0] * len(rows) if lens is None else lens.tolist()
    if tables.tokens is not None:
        _judge_values(rows, valid_lens, tables.tokens)
    prefixes = _of_active(rows, prefixes)
    return FewRequests(
        rows=rows,
        firsts=[max(prefix - window, 0) for prefix in prefixes] if window > 0 else [0] * len(rows),
        prefixes=prefixes,
        extends=_of_active(rows, extends),
        valid_lens=valid_lens,
        shift=fields.get(TOKEN_OFFSET.name, 0),
        verify_capacity=capacity,
        write_req_capacity=write_req_capacity or least,
        tables=tables,
    )


def _judge_form(vectors: Sequence[Ints], tables: HostTables) -> None:
    shape = vectors[0].shape
    if (
        len(shape) != 1
        or shape[0] > MOST_REQUESTS
        or any(vector.shape != shape for vector in vectors)
        or tables.slots.ndim != 2
        or (tables.lut is not None and (tables.lut.ndim != 1 or not len(tables.lut)))
        or (tables.tokens is not None and tables.tokens.ndim != 2)
    ):
        raise NotPlain


def _judge_values(rows: Sequence[int], lens: Sequence[int], table: npt.NDArray[np.int32]) -> None:
    """Accept rows inside the table, and lens that are no longer than they are; those of padding rows are not judged."""
    table_rows, columns = table.shape
    for row, length in zip(rows, lens, strict=True):
        if row != PADDING_ROW and not (0 <= row < table_rows and length <= columns):
            raise NotPlain


def _of_active(rows: Sequence[int], lens: Sequence[int]) -> list[int]:
    """Lens that are not negative, 0 for padding rows."""
    return [max(length, 0) if row != PADDING_ROW else 0 for row, length in zip(rows, lens, strict=True)]
