"""Which snapshots a writer read: as it names them, or as the plan of its frame does."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from lakewarden.model.errors import ArgumentError, LakewardenError
from lakewarden.writers.tables import Fleet, asked

MOST = 2**63 - 1
# What Spark's plans hold of a table of Iceberg's.
SPARK_TABLE = "org.apache.iceberg.spark.source.SparkTable"


def snapshots_read(inputs: Iterable[object], spark: Any, fleet: Fleet | None) -> list[int]:
    """The snapshots behind what a writer names, each once. Of an empty table nothing was read. Raises ArgumentError."""
    given = [inputs] if isinstance(inputs, str) or not isinstance(inputs, Iterable) else inputs
    return list(dict.fromkeys(found for one in given for found in _snapshots(one, spark, fleet)))


def snapshots_under(frame: object) -> list[int]:
    """The snapshots of the Iceberg tables that a frame of PySpark's reads, as its plan has them; none of a frame that
    does not show its plan (Spark Connect)."""
    shown = getattr(frame, "_jdf", None)
    if shown is None:
        return []
    whole = shown.queryExecution().analyzed()
    # `WHERE id IN (SELECT …)` is a plan of its own, within an expression.
    plans = [whole, *_each(whole.subqueriesAll())]
    found = (_of_leaf(leaf) for plan in plans for leaf in _each(plan.collectLeaves()))
    return list(dict.fromkeys(one for one in found if one is not None))


def _each(sequence: Any) -> Iterator[Any]:
    """What a sequence of Scala's holds."""
    return (sequence.apply(at) for at in range(sequence.size()))


def _of_leaf(leaf: Any) -> int | None:
    if not leaf.getClass().getSimpleName().startswith("DataSourceV2"):
        return None
    table = leaf.table()
    if table.getClass().getName() != SPARK_TABLE:
        return None
    if (said := table.snapshotId()) is not None:
        return int(said)
    current = table.table().snapshot(table.branch()) if table.branch() else table.table().currentSnapshot()
    return None if current is None else int(current.snapshotId())


def _snapshots(given: object, spark: Any, fleet: Fleet | None) -> Iterator[int]:
    if isinstance(given, int) and not isinstance(given, bool) and abs(given) <= MOST:
        yield given
    elif isinstance(given, str) and spark is not None:
        yield from (
            int(row[0]) for row in asked(spark, "SELECT snapshot_id FROM {}.refs WHERE name = 'main'", "inputs", given)
        )
    elif isinstance(given, str) and fleet is not None:
        current = _state(fleet, given).current_snapshot_id
        yield from () if current is None else (current,)
    elif hasattr(given, "_jdf"):
        yield from snapshots_under(given)
    elif callable(read := getattr(given, "snapshot" if hasattr(given, "plan_files") else "current_snapshot", None)):
        found = read()
        yield from () if found is None else (int(found.snapshot_id),)
    else:
        raise ArgumentError(
            "lineage: inputs must be ids of snapshots, tables or scans of PyIceberg's, frames of PySpark's, or names that "
            f"the session or the configuration knows, and not {given!r}; nothing was committed",
            argument="inputs",
        )


def _state(fleet: Fleet, name: str) -> Any:
    try:
        return fleet.table(name)
    except LakewardenError as error:
        raise ArgumentError(
            f"lineage: inputs names {name!r}: {error.message}; nothing was committed", argument="inputs"
        ) from error
