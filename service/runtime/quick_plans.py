"""Owns when a plan is made from Python integers where it is: without a device, few requests, few entries."""

from service.bodies import USE_LUT, USE_TOKENS
from service.plan.few_requests import HostTables, NotPlain, judge_few_requests
from service.runtime.computer import PlanLimits
from service.runtime.queries import Fields, PlanQuery
from service.spec import EXPECTED_TOKENS, FULL_TO_SWA_INDEX_MAPPING, REQ_TO_TOKEN

_MOST_ENTRIES = 1024
"""Plans of more, or of more write rows, are quicker with numpy."""


def quick_plan(
    query: PlanQuery, resident: HostTables | None, limits: PlanLimits, *, with_entries: bool
) -> dict[str, object] | None:
    """The fields of a single plan over ``resident`` tables, or over those of the body.

    None if only the planner can tell what it amounts to, or that it breaks a rule or a limit.
    """
    if query.groups:
        return None
    fields = query.plans[0]
    tables = _inline_tables(fields) if resident is None else resident
    if USE_LUT.name in fields or USE_TOKENS.name in fields:
        tables = tables.without(lut=not fields.get(USE_LUT.name, True), tokens=not fields.get(USE_TOKENS.name, True))
    try:
        batch = judge_few_requests(fields, tables)
        if batch.write_req_capacity > limits.max_requests:
            return None
        if resident is None and _largest(tables) > limits.max_table_cells:
            return None
        most_entries = min(limits.max_verify_entries, _MOST_ENTRIES)
        return batch.answer(with_entries=with_entries, most_entries=most_entries)
    except NotPlain:
        return None


def _inline_tables(fields: Fields) -> HostTables:
    return HostTables(
        fields[REQ_TO_TOKEN.name], fields.get(FULL_TO_SWA_INDEX_MAPPING.name), fields.get(EXPECTED_TOKENS.name)
    )


def _largest(tables: HostTables) -> int:
    """Cells of the largest of the tables."""
    return max(table.size for table in (tables.slots, tables.lut, tables.tokens) if table is not None)
