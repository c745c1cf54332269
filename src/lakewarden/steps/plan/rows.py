"""The rows of a plan: read, checked against their digests, one by one or all that are to be deleted."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakewarden.model.errors import PlanEditedError
from lakewarden.model.run import PlanResult
from lakewarden.pipeline import columns as c
from lakewarden.steps.plan.files import shown_tables
from lakewarden.storage.stores import Stores


def rows_of(stores: Stores, result: PlanResult, *more: str) -> Iterator[pa.Table]:
    """PLAN_ROWS, and the columns that a job has beside them; one table per file, each checked against the header's digest."""
    names = [*c.PLAN_ROWS.names, *more]
    for part in result.plan.parts:
        try:
            data = stores.get(result.path + part.name)
        except FileNotFoundError as error:
            raise PlanEditedError(f"{part.name} of plan {result.plan.plan_id} is missing; nothing was done") from error
        if hashlib.sha256(data).hexdigest() != part.sha256:
            raise PlanEditedError(f"{part.name} of plan {result.plan.plan_id} was edited; nothing was done")
        # On this thread alone: a reader's threads that outlive a short command abort it at exit.
        file = pq.ParquetFile(pa.BufferReader(data), pre_buffer=False)
        yield file.read(columns=names, use_threads=False).select(names)


def plan_rows(
    stores: Stores, result: PlanResult, verdict: str | None = None, limit: int | None = None
) -> Iterator[dict[str, Any]]:
    """Rows as plain values, for people and scripts."""
    wanted = shown_tables(result.plan)
    left = limit
    for table in rows_of(stores, result):
        table = of_tables(table, wanted)
        if verdict is not None:
            table = table.filter(pc.equal(table["verdict"], verdict))
        if left is not None:
            table = table.slice(0, left)
            left -= table.num_rows
        yield from table.drop_columns([c.ROOT]).to_pylist()
        if left is not None and left <= 0:
            return


def of_tables(rows: pa.Table, identifiers: Collection[str]) -> pa.Table:
    return rows.filter(pc.is_in(rows["table"], pa.array(sorted(identifiers), pa.string())))


def group_rows(stores: Stores, result: PlanResult, tables: Collection[str]) -> pa.Table:
    """The files of these tables that a plan rewrites: PLAN_ROWS, and the `group` and the `partition` that each is in.

    Files without a group are those that the plan leaves as they are for now, with the reason.
    """
    schema = pa.schema([*c.PLAN_ROWS, ("group", pa.string()), ("partition", pa.binary())])
    parts = rows_of(stores, result, "group", "partition")
    found = pa.concat_tables([schema.empty_table(), *(of_tables(rows, tables) for rows in parts)])
    return found.filter(pc.is_valid(found["group"]))
