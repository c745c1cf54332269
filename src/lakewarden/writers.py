"""Lineage for users' own writers: the keys of `lakewarden.lineage(…)` on PySpark, Spark SQL and PyIceberg writes."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from lakewarden.model import lineage as keys
from lakewarden.model.actor import Trigger, os_user
from lakewarden.model.errors import ArgumentError

W = TypeVar("W")
# How Spark's Iceberg is told of a property of the next snapshot: by an option of a write, or for all of a session's SQL.
OPTION = "snapshot-property."
SETTING = "spark.sql.iceberg.snapshot-property."
# Says which version of its program a writer runs, where no repository is at hand.
COMMIT_VARIABLES = ("LAKEWARDEN_COMMIT_HASH", "GIT_COMMIT", "GITHUB_SHA", "CI_COMMIT_SHA")


@dataclass(frozen=True)
class Lineage:
    """What one invocation of a writer says with each of its commits."""

    said: Mapping[str, str]
    requirements: keys.Requirements = field(default_factory=keys.Requirements)

    def properties(
        self,
        operation: str = "append",
        table: object = None,
        *,
        inputs: Iterable[object] = (),
        rows: int | None = None,
        size: int | None = None,
    ) -> dict[str, str]:
        """The properties of one commit: PyIceberg's `snapshot_properties=`.

        `table` is what is written to: a table of PyIceberg's, or the properties of any table. `inputs` are the snapshots
        that were read: their ids, or tables of PyIceberg's. Raises LineageError where the table requires more.
        """
        found = dict(self.said)
        if ids := [_snapshot_of(one) for one in inputs]:
            found[keys.INPUTS] = keys.joined_ids(ids)
        if rows is not None:
            found[keys.INPUT_ROWS] = str(rows)
        if size is not None:
            found[keys.INPUT_BYTES] = str(size)
        rules = self.requirements.under(_properties_of(table))
        keys.validate_lineage({**found, keys.OPERATION: operation}, rules)
        return found

    def on(self, writer: W, operation: str = "append", table: object = None, **more: Any) -> W:
        """A PySpark writer (`df.writeTo(…)`, `df.write`) whose commit has the properties; `more` as for `properties`."""
        told: Any = writer
        for name, value in self.properties(operation, table, **more).items():
            told = told.option(OPTION + name, value)
        return told  # type: ignore[no-any-return]

    @contextmanager
    def session(self, spark: Any, operation: str = "append", table: object = None, **more: Any) -> Iterator[None]:
        """Spark SQL that commits meanwhile has the properties; the session's settings are as before afterwards.

        `table` may be a name that the session knows, whose properties it is asked for.
        """
        if isinstance(table, str):
            rows = spark.sql(f"SHOW TBLPROPERTIES {table}").collect()
            table = {row["key"]: row["value"] for row in rows}
        wanted = {SETTING + name: value for name, value in self.properties(operation, table, **more).items()}
        before = {name: spark.conf.get(name, None) for name in wanted}
        try:
            for name, value in wanted.items():
                spark.conf.set(name, value)
            yield
        finally:
            for name, was in before.items():
                spark.conf.unset(name) if was is None else spark.conf.set(name, was)


def lineage(
    writer: str,
    *,
    trigger: str = Trigger.SCHEDULE,
    operator: str | None = None,
    ticket: str | None = None,
    invocation: str | None = None,
    commit_hash: str | None = None,
    requirements: keys.Requirements | None = None,
) -> Lineage:
    """What a writer says with each of its commits. Host, version and invocation are found out where they are not given."""
    said = {
        keys.WRITER: writer,
        keys.HOST: socket.gethostname(),
        keys.COMMIT_HASH: commit_hash or _commit_hash(),
        keys.INVOCATION: invocation or uuid.uuid4().hex,
        keys.TRIGGER: str(trigger),
        keys.OPERATOR: operator or (os_user() if trigger == Trigger.MANUAL else ""),
        keys.TICKET: ticket or "",
    }
    return Lineage({name: value for name, value in said.items() if value}, requirements or keys.Requirements())


@cache
def _commit_hash() -> str:
    """Of the program that runs: as its environment says, or of the repository that it lies in. Empty where nobody knows."""
    for variable in COMMIT_VARIABLES:
        if value := os.environ.get(variable, "").strip():
            return value
    program = Path(sys.argv[0] or ".").resolve()
    place = program if program.is_dir() else program.parent
    try:
        done = subprocess.run(
            ["git", "-C", place, "rev-parse", "HEAD"], capture_output=True, text=True, timeout=5, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def _snapshot_of(given: object) -> int:
    current = getattr(given, "current_snapshot", None)
    found = current() if callable(current) else None
    if found is not None:
        return int(found.snapshot_id)
    if isinstance(given, int) and not isinstance(given, bool):
        return given
    raise ArgumentError(
        f"lineage: inputs must be ids of snapshots or tables that have one, and not {given!r}; nothing was committed",
        argument="inputs",
    )


def _properties_of(table: object) -> Mapping[str, str]:
    if table is None:
        return {}
    found = table if isinstance(table, Mapping) else getattr(table, "properties", None)
    if isinstance(found, Mapping):
        return found
    raise ArgumentError(
        f"lineage: table must be a table of PyIceberg's or the properties of a table, and not {table!r}; "
        "nothing was committed",
        argument="table",
    )
