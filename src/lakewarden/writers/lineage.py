"""What a writer of a user's says with each of its commits, and how its engine is told."""

from __future__ import annotations

import socket
import uuid
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from lakewarden.model import lineage as keys
from lakewarden.model.actor import Trigger, os_user
from lakewarden.model.arguments import checked, checks_arguments
from lakewarden.writers.inputs import snapshots_read, snapshots_under
from lakewarden.writers.session import telling
from lakewarden.writers.tables import Fleet, rules_of
from lakewarden.writers.version import version_of_program

W = TypeVar("W")
# How Spark's Iceberg is told of a property of the next snapshot, by an option of a write.
OPTION = "snapshot-property."


@checks_arguments
@dataclass(frozen=True)
class Lineage:
    """What one invocation of a writer says with each of its commits. Every method raises LakewardenError and nothing else.

    `table` is what is written to: a table of PyIceberg's, the properties of any table, or a name that the Spark session
    or the configuration knows. `inputs` are what was read: ids of snapshots, tables and scans of PyIceberg's, frames of
    PySpark's, or names.
    """

    said: Mapping[str, str]
    requirements: keys.Requirements | None = None
    fleet: Fleet | None = field(default=None, repr=False)

    def properties(
        self,
        operation: str = "append",
        table: object = None,
        *,
        inputs: Iterable[object] | None = None,
        rows: int | None = None,
        size: int | None = None,
    ) -> dict[str, str]:
        """The properties of one commit: PyIceberg's `snapshot_properties=`. Raises LineageError where the table requires more."""
        return self._said(operation, table, inputs, rows, size, None)

    def on(
        self,
        writer: W,
        operation: str = "append",
        table: object = None,
        *,
        inputs: Iterable[object] | None = None,
        rows: int | None = None,
        size: int | None = None,
    ) -> W:
        """A PySpark writer (`df.writeTo(…)`, `df.write`) whose commit has the properties.

        Where `inputs` are not given, they are the snapshots of the Iceberg tables under the writer's own frame.
        """
        told: Any = writer
        if inputs is None:
            inputs = snapshots_under(getattr(writer, "_df", None))
        spark = getattr(writer, "_spark", None)
        for name, value in self._said(operation, table, inputs, rows, size, spark).items():
            told = told.option(OPTION + name, value)
        return told  # type: ignore[no-any-return]

    def session(
        self,
        spark: Any,
        operation: str = "append",
        table: object = None,
        *,
        inputs: Iterable[object] | None = None,
        rows: int | None = None,
        size: int | None = None,
    ) -> AbstractContextManager[None]:
        """Spark SQL that commits meanwhile has the properties; the session's settings are as before afterwards.

        A block within a block says its own and nothing of the outer one. Raises ArgumentError where another thread has
        a block open on the same session.
        """
        return telling(spark, self._said(operation, table, inputs, rows, size, spark))

    def _said(
        self,
        operation: str,
        table: object,
        inputs: Iterable[object] | None,
        rows: int | None,
        size: int | None,
        spark: Any,
    ) -> dict[str, str]:
        found = dict(self.said)
        if ids := snapshots_read(inputs or (), spark, self.fleet):
            found[keys.INPUTS] = keys.joined_ids(ids)
        if rows is not None:
            found[keys.INPUT_ROWS] = str(rows)
        if size is not None:
            found[keys.INPUT_BYTES] = str(size)
        rules = rules_of(table, self.requirements, spark, self.fleet)
        keys.validate_lineage({**found, keys.OPERATION: operation}, rules)
        return found


def lineage(
    writer: str,
    *,
    trigger: str = Trigger.SCHEDULE,
    operator: str | None = None,
    ticket: str | None = None,
    invocation: str | None = None,
    commit_hash: str | None = None,
    requirements: keys.Requirements | None = None,
    fleet: Fleet | None = None,
) -> Lineage:
    """What a writer says with each of its commits. Host, version and invocation are found out where they are not given."""
    said = {
        keys.WRITER: writer,
        keys.HOST: socket.gethostname(),
        keys.COMMIT_HASH: commit_hash or version_of_program(),
        keys.INVOCATION: invocation or uuid.uuid4().hex,
        keys.TRIGGER: str(trigger),
        keys.OPERATOR: operator or (os_user() if trigger == Trigger.MANUAL else ""),
        keys.TICKET: ticket or "",
    }
    return Lineage({name: value for name, value in said.items() if value}, requirements, fleet)


lineage = checked(lineage)
