"""The Spark job behind a compaction plan: the files of every table, by partition, in groups that become fewer files.

Tables are a column: one job groups the files of the whole fleet, and writes the groups to the plan's directory.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from lakewarden.model.compaction import FileGroup, PartitionFile, RewriteWorker, groups_of
from lakewarden.model.plan import PartFile
from lakewarden.model.verdict import Kind, Verdict
from lakewarden.pipeline import columns as c
from lakewarden.pipeline.compare.answer import PARTS, added_up, answer_schema, part_files, task_answer
from lakewarden.pipeline.compare.plan_files import write_part
from lakewarden.pipeline.read.data_files import DATA_FILES, read_data_files
from lakewarden.pipeline.read.manifests import ReadTask
from lakewarden.pipeline.read.partition_counts import manifests_of
from lakewarden.pipeline.read.to_read import ToRead
from lakewarden.storage.stores import Stores

# One row per file of a group; `outputs` is how many files the group would become. In place of a file, a task's note.
GROUPED = pa.schema(
    [
        (c.TABLE, pa.int32()),
        ("partition", pa.binary()),
        ("group", pa.string()),
        ("reason", pa.string()),
        ("uri", pa.string()),
        (c.SIZE, pa.int64()),
        ("rows", pa.int64()),
        ("outputs", pa.int64()),
        ("note", pa.string()),
    ]
)
# A plan's rows, and the group and the partition that each file is in.
GROUP_ROWS = pa.schema([*c.PLAN_ROWS, ("group", pa.string()), ("partition", pa.binary())])
# Groups, their files and bytes, and the files that they would become, by table.
COUNTS = pa.schema(
    [
        (c.TABLE, pa.int32()),
        ("groups", pa.int64()),
        ("outputs", pa.int64()),
        ("files", pa.int64()),
        ("bytes", pa.int64()),
        ("task", pa.string()),
    ]
)
NOTES = pa.schema([(c.TABLE, pa.int32()), ("note", pa.string())])
LISTS = {"parts": PARTS, "counts": COUNTS, "notes": NOTES}

Batches = Iterable[pa.RecordBatch]


@dataclass(frozen=True, slots=True)
class TableRules:
    """How the files of one table are grouped."""

    identifier: str
    target: int
    min_input_files: int
    format: str
    layout: str = ""


@dataclass(frozen=True, slots=True)
class TableGroups:
    """What one table's groups come to."""

    groups: int = 0
    files: int = 0
    bytes: int = 0
    outputs: int = 0


@dataclass(frozen=True)
class Grouped:
    """The plan's files, what each table's groups come to, and the notes on tables that could not be read."""

    parts: Sequence[PartFile]
    tables: Mapping[int, TableGroups]
    notes: Mapping[int, str]


def plan_groups(
    spark: SparkSession,
    wanted: ToRead,
    read: ReadTask,
    workers: Mapping[str, RewriteWorker],
    rules: Mapping[int, TableRules],
    directory: str,
) -> Grouped:
    """Group the live files of the wanted lists. Rows go to the plan's directory, and only counts come back."""
    files = manifests_of(spark, wanted, read).mapInArrow(read_data_files(read.stores, workers), c.ddl(DATA_FILES))
    grouped = files.groupBy(c.TABLE, "partition", "note").applyInArrow(_by_partition(rules, workers), c.ddl(GROUPED))
    told = grouped.mapInArrow(_written(read.stores, rules, directory), c.ddl(answer_schema(LISTS)))
    return _added_up(told.toArrow())


def _by_partition(
    rules: Mapping[int, TableRules], workers: Mapping[str, RewriteWorker]
) -> Callable[[pa.Table], pa.Table]:
    """DATA_FILES of one partition of one table in, GROUPED out."""

    def group(rows: pa.Table) -> pa.Table:
        table, partition = rows[c.TABLE][0].as_py(), rows["partition"][0].as_py()
        notes = rows.filter(pc.is_valid(rows["note"]))
        if notes.num_rows:
            return _noted(notes)
        rule = rules[table]
        live = workers[rule.format].live_files(rows, rule.layout)
        found = groups_of(_files(live), rule.target, rule.min_input_files)
        return pa.Table.from_pylist(
            [
                {
                    c.TABLE: table,
                    "partition": partition,
                    "group": one.name,
                    "reason": _reason(one),
                    "uri": file.path,
                    c.SIZE: file.size,
                    "rows": file.rows,
                    "outputs": one.outputs(rule.target),
                }
                for one in found
                for file in one.files
            ],
            schema=GROUPED,
        )

    return group


def _reason(group: FileGroup) -> str:
    return f"one of {len(group.files)} files to be rewritten together ({group.reason})"


def _files(rows: pa.Table) -> Iterator[PartitionFile]:
    deletes = rows.filter(pc.and_(pc.equal(rows["content"], 1), pc.is_valid(rows["about"])))
    sums = deletes.group_by("about").aggregate([("rows", "sum")])
    deleted = dict(zip(sums["about"].to_pylist(), sums["rows_sum"].to_pylist(), strict=True))
    data = rows.filter(pc.equal(rows["content"], 0))
    columns = (data[name].to_pylist() for name in ("path", "size", "rows"))
    for path, size, count in zip(*columns, strict=True):
        yield PartitionFile(path, size, count, min(count, deleted.get(path, 0)))


def _noted(rows: pa.Table) -> pa.Table:
    return pa.Table.from_pylist(rows.select([c.TABLE, "note"]).to_pylist(), schema=GROUPED)


def _written(stores: Stores, rules: Mapping[int, TableRules], directory: str) -> Callable[[Batches], Batches]:
    """GROUPED in, one row of an answer out; GROUP_ROWS go to a file under the plan's directory."""

    def run(batches: Batches) -> Iterator[pa.RecordBatch]:
        rows = pa.Table.from_batches(list(batches), schema=GROUPED)
        noted = pc.is_valid(rows["note"])
        told = {"notes": [rows.filter(noted).select(NOTES.names)]}
        found = rows.filter(pc.invert(noted))
        if found.num_rows:
            told |= {"parts": [_part(stores, directory, found, rules)], "counts": [_counts(found)]}
        yield task_answer(told, LISTS)

    return run


def _part(stores: Stores, directory: str, rows: pa.Table, rules: Mapping[int, TableRules]) -> pa.Table:
    names = pa.array([rules[number].identifier for number in rows[c.TABLE].to_pylist()], pa.string())
    blank = pa.nulls(rows.num_rows)
    table = pa.table(
        {
            "uri": rows["uri"],
            "table": names,
            "verdict": pa.repeat(str(Verdict.LIVE), rows.num_rows),
            "reason": rows["reason"],
            c.KIND: pa.repeat(str(Kind.DATA), rows.num_rows),
            c.SIZE: rows[c.SIZE],
            c.MODIFIED: blank.cast(pa.timestamp("us", tz="UTC")),
            c.ETAG: blank.cast(pa.string()),
            c.ROOT: blank.cast(pa.int32()),
            "group": rows["group"],
            "partition": rows["partition"],
        }
    ).cast(GROUP_ROWS)
    return pa.Table.from_pylist([asdict(write_part(stores, directory, table))], schema=PARTS)


def _counts(rows: pa.Table) -> pa.Table:
    groups = rows.group_by([c.TABLE, "group"]).aggregate([("outputs", "max"), (c.SIZE, "sum"), ("uri", "count")])
    sums = groups.group_by([c.TABLE]).aggregate(
        [("group", "count"), ("outputs_max", "sum"), ("uri_count", "sum"), ("size_sum", "sum")]
    )
    columns = {
        c.TABLE: sums[c.TABLE],
        "groups": sums["group_count"],
        "outputs": sums["outputs_max_sum"],
        "files": sums["uri_count_sum"],
        "bytes": sums["size_sum_sum"],
        # Tasks that count the same of a table say two things, not one.
        "task": pa.repeat(uuid.uuid4().hex, sums.num_rows),
    }
    return pa.table(columns).cast(COUNTS)


def _added_up(rows: pa.Table) -> Grouped:
    told = added_up(rows, LISTS)
    tables: dict[int, TableGroups] = {}
    for row in told["counts"]:
        so_far = tables.get(row[c.TABLE], TableGroups())
        tables[row[c.TABLE]] = TableGroups(
            so_far.groups + row["groups"],
            so_far.files + row["files"],
            so_far.bytes + row["bytes"],
            so_far.outputs + row["outputs"],
        )
    return Grouped(part_files(told["parts"]), tables, {row[c.TABLE]: row["note"] for row in told["notes"]})
