"""A moment of the night: a branch that lost its manifest list goes, and the one that somebody works on stays."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlparse

import pyarrow as pa
from pyiceberg.table import Table

from demo.lake import CATALOG, DemoLake
from demo.terminal import Terminal, expect

TABLE = "shop.baskets"
LOST, WORK = "etl_march", "work"
# The branches are a few seconds old; yours are not.
CONFIG = f"""
[[overrides]]
match = "{CATALOG}.{TABLE}"
[overrides.stale_branches]
min_age_hours = 0
"""


def tell(lake: DemoLake, terminal: Terminal) -> None:
    """Two branches of one table; the manifest list of one is lost, and put back when its branch is gone."""
    table = build(lake)
    rows = table.scan(snapshot_id=_head(table, WORK)).to_arrow().num_rows
    lost = list_of(table, LOST)
    aside = lost.rename(lost.with_name("lost"))

    terminal.plan_and_apply("stale-branches", "p8")
    refs = set(table.refresh().metadata.refs)
    expect(refs == {"main", WORK}, f"the refs of {TABLE} are {sorted(refs)}")
    expect(table.scan(snapshot_id=_head(table, WORK)).to_arrow().num_rows == rows, f"{WORK} reads differently")
    aside.rename(lost)
    terminal.held(f"branch {LOST} had lost its manifest list, and goes; {WORK} reads as before")


def build(lake: DemoLake) -> Table:
    """A table with two branches beside main."""
    baskets = pa.table({"id": pa.array([1, 2, 3], pa.int64())})
    table = lake.catalog.create_table(TABLE, baskets.schema)
    table.append(baskets)
    for name in (LOST, WORK):
        table.manage_snapshots().create_branch(_head(table, "main"), name).commit()
        table.append(baskets, branch=name)
    table.append(baskets)
    return table


def _head(table: Table, branch: str) -> int:
    return int(table.metadata.refs[branch].snapshot_id)


def list_of(table: Table, branch: str) -> Path:
    """The file without which nobody can read the branch."""
    snapshot = table.snapshot_by_id(_head(table, branch))
    assert snapshot is not None
    return Path(urlparse(str(snapshot.manifest_list)).path)
