"""Two plans side by side: what one would change that the other would not."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from lakewarden.model.run import PlanDiff, PlanResult
from lakewarden.pipeline import columns as c
from lakewarden.steps.plan.files import shown_tables
from lakewarden.steps.plan.ordered import orphans_in_order
from lakewarden.storage.stores import Stores


def diff(stores: Stores, before: PlanResult, after: PlanResult) -> PlanDiff:
    """Addresses that only one of the plans would change, and the tables whose outcome differs."""
    one, other = _names(stores, before), _names(stores, after)
    tables = {table.identifier: (table.status, table.changes) for table in before.plan.tables}
    changed = [t.identifier for t in after.plan.tables if tables.pop(t.identifier, None) != (t.status, t.changes)]
    return PlanDiff(_only(other, one), _only(one, other), sorted([*changed, *tables]))


def _names(stores: Stores, result: PlanResult) -> pa.ChunkedArray:
    found = [c.PLAN_ROWS.empty_table(), *orphans_in_order(stores, result, shown_tables(result.plan))]
    return pa.concat_tables([rows.select(["uri"]) for rows in found])["uri"]


def _only(these: pa.ChunkedArray, those: pa.ChunkedArray) -> list[str]:
    found: list[str] = these.filter(pc.invert(pc.is_in(these, those.combine_chunks()))).to_pylist()
    return found
