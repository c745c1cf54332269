"""Tables with branches of every state, on any catalog of PyIceberg."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.types import LongType, NestedField

from lakewarden.model.plan import TablePlan
from tests.jobs.snapshot_expiry.expiry_site import Site
from tests.support.deployments import sqlite_properties
from tests.support.lakes import local_path

JOB = "stale-branches"
SCHEMA = Schema(NestedField(1, "id", LongType(), required=False))
AT_ONCE = {"min_age_hours": 0}


def site_of(base: Path, **section: Any) -> Site:
    """One SQL catalog, and a policy under which a branch may go as soon as it is made, unless the test says otherwise."""
    base.mkdir(parents=True, exist_ok=True)
    return Site(base, {"lake": sqlite_properties(base)}, sections={"stale_branches": {**AT_ONCE, **section}})


def rows(first: int) -> pa.Table:
    return pa.table({"id": pa.array([first, first + 1], pa.int64())})


def make_table(catalog: Catalog, name: str, commits: int = 3) -> Table:
    catalog.create_namespace_if_not_exists(name.partition(".")[0])
    table = catalog.create_table(name, SCHEMA)
    for number in range(commits):
        table.append(rows(10 * number))
    return table


def branch(table: Table, name: str, *commits: int, at: int | None = None) -> Table:
    """A branch at a snapshot of main (by its place in the history; the newest by default), with commits of its own."""
    history = [entry.snapshot_id for entry in table.history()]
    table.manage_snapshots().create_branch(history[-1 if at is None else at], name).commit()
    for first in commits:
        table.append(rows(first), branch=name)
    return table


def head(table: Table, name: str) -> Snapshot:
    """The newest snapshot of a branch."""
    snapshot = table.snapshot_by_name(name)
    assert snapshot is not None
    return snapshot


def list_of(table: Table, name: str) -> str:
    """The manifest list at which a branch begins."""
    return str(head(table, name).manifest_list)


def break_branch(table: Table, name: str) -> Path:
    """Delete by hand what the branch begins with."""
    path = local_path(list_of(table, name))
    path.unlink()
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
    return path


def states(table: TablePlan) -> dict[str, str]:
    """The state of every branch that is not healthy."""
    return {line["name"]: line["state"] for line in table.detail["branches"]}


def going(table: TablePlan) -> set[str]:
    return {line["name"] for line in table.detail["branches"] if line["goes"]}


def line(table: TablePlan, name: str) -> Mapping[str, Any]:
    return next(item for item in table.detail["branches"] if item["name"] == name)


def refs(table: Table) -> set[str]:
    return set(table.refresh().metadata.refs)


def at_each(change: Callable[[], None], owner: Any, name: str, patch: Any) -> None:
    """Let something happen directly before a call, once."""
    real = getattr(owner, name)
    done: list[bool] = []

    def watched(*given: Any, **more: Any) -> Any:
        if not done:
            done.append(True)
            change()
        return real(*given, **more)

    patch.setattr(owner, name, watched)
