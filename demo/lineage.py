"""A moment of the night: a table that wants to know who writes to it, and the commit that did not say."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa

import lakewarden
from demo.lake import CATALOG, DemoLake
from demo.terminal import Terminal, expect
from lakewarden.model.errors import LineageError

TABLE = "shop.refunds"
RULE = {"lineage.required-keys": "writer.id,writer.commit_hash", "lineage.required-keys.delete": "trigger.ticket"}


def tell(base: Path, lake: DemoLake, terminal: Terminal) -> None:
    """One commit says who made it, one is stopped before it is made, and one came by another way."""
    rows = pa.table({"id": pa.array([1, 2], pa.int64())})
    table = lake.catalog.create_table(TABLE, rows.schema, properties=RULE)
    said = lakewarden.lineage("refunds", commit_hash="a1b2c3")
    table.append(rows, snapshot_properties=said.properties(table=table))
    stopped = ""
    try:
        table.delete(snapshot_properties=said.properties("delete", table))
    except LineageError as error:
        stopped = error.message
    expect("trigger.ticket is missing" in stopped, "a delete without a ticket was not stopped")
    table.append(rows)

    terminal.run("plan", "lineage-check", "--select", f"{CATALOG}.{TABLE}", "--out", "p9")
    found = json.loads((base / "p9" / "plan.json").read_text(encoding="utf-8"))["tables"][0]["detail"]
    expect((found["snapshots"], found["violations"]) == (2, 1), f"the check of {TABLE} found {found}")
    terminal.held("a delete without a ticket was stopped; a commit that named nobody was found")
