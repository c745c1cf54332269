"""The Spark job behind a compaction plan: the files of every table, by partition, in groups that become fewer files.

Tables are a column: one job groups the files of the whole fleet, ranks the groups, and writes them to the plan's directory.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakewarden.model.compaction import FileGroup, RewriteWorker, TableRules
from lakewarden.model.errors import LakewardenError
from lakewarden.model.plan import PartFile
from lakewarden.model.verdict import Kind, Verdict
from lakewarden.model.worth import Budget, Fate, Ranked, Worth
from lakewarden.pipeline import columns as c
from lakewarden.pipeline.compare.answer import PARTS, added_up, answer_schema, part_files, task_answer
from lakewarden.pipeline.compare.plan_files import write_part
from lakewarden.pipeline.read.data_files import DATA_FILES, read_data_files
from lakewarden.pipeline.read.manifests import ReadTask
from lakewarden.pipeline.read.notes import error_note
from lakewarden.pipeline.read.partition_counts import manifests_of
from lakewarden.pipeline.read.to_read import ToRead
from lakewarden.pipeline.rewrite.partition_files import is_hot, partition_files
from lakewarden.pipeline.rewrite.ranking import SUMS, rank
from lakewarden.storage.stores import Stores

# One row per file of a group. What the group costs and saves, as Worth counts it, stands at its first file; at the others
# these numbers are 0, so that sums over files are sums over groups. In place of a file, a task's note.
GROUPED = pa.schema(
    [
        (c.TABLE, pa.int32()),
        ("partition", pa.binary()),
        ("group", pa.string()),
        ("fate", pa.string()),
        ("reason", pa.string()),
        ("uri", pa.string()),
        (c.SIZE, pa.int64()),
        ("per_cost", pa.float64()),
        *((name, pa.int64()) for name in SUMS),
        ("note", pa.string()),
    ]
)
# A plan's rows, and the group and the partition that each file is in; no group for the files of those that the plan leaves
# as they are.
GROUP_ROWS = pa.schema([*c.PLAN_ROWS, ("group", pa.string()), ("partition", pa.binary())])
# What groups come to, by table and fate. A task counts once: tasks that count the same of a table say two things, not one.
COUNTS = pa.schema(
    [(c.TABLE, pa.int32()), ("fate", pa.string()), *((name, pa.int64()) for name in SUMS), ("task", pa.string())]
)
NOTES = pa.schema([(c.TABLE, pa.int32()), ("note", pa.string())])
LISTS = {"parts": PARTS, "counts": COUNTS, "notes": NOTES}

Batches = Iterable[pa.RecordBatch]


@dataclass(frozen=True)
class Grouped:
    """The plan's files, what each table's groups come to by fate, how they rank, and notes on tables that were not read."""

    parts: Sequence[PartFile] = ()
    tables: Mapping[tuple[int, str], Worth] = field(default_factory=dict)
    notes: Mapping[int, str] = field(default_factory=dict)
    ranked: Ranked = field(default_factory=Ranked)

    def of(self, table: int, fate: Fate) -> Worth:
        return self.tables.get((table, fate), Worth())


def plan_groups(
    spark: SparkSession,
    wanted: ToRead,
    read: ReadTask,
    workers: Mapping[str, RewriteWorker],
    rules: Mapping[int, TableRules],
    budget: Budget,
    directory: str,
) -> Grouped:
    """Group the live files of the wanted lists. Rows go to the plan's directory, and only counts come back."""
    manifests = manifests_of(spark, wanted, read, c.INHERITED)
    reading = read_data_files(read.stores, workers)
    files = manifests.mapInArrow(reading, c.ddl(DATA_FILES))
    if several := [number for number, rule in rules.items() if rule.several_specs]:
        some = manifests.where(F.col(c.TABLE).isin(several)).mapInArrow(reading, c.ddl(DATA_FILES))
        files = files.unionByName(_reaching_others(some))
    grouped = (
        files.groupBy(c.TABLE, "partition", "note")
        .applyInArrow(_by_partition(rules, workers), c.ddl(GROUPED))
        .persist()
    )
    try:
        ranked = rank(grouped.where((F.col("groups") == 1) & (F.col("fate") == str(Fate.NOW))), budget)
        writing = _Writing(read.stores, rules, directory, ranked, budget.why)
        told = grouped.mapInArrow(_written(writing), c.ddl(answer_schema(LISTS))).toArrow()
    finally:
        grouped.unpersist()
    return _added_up(told, ranked)


def _reaching_others(files: DataFrame) -> DataFrame:
    """DATA_FILES in and out: deletes that were written without a partition, once for each other partition they reach."""
    data = files.where((F.col("content") == 0) & F.col("note").isNull()).select(c.TABLE, "partition").distinct()
    deletes = files.where("everywhere").withColumnRenamed("partition", "own")
    reached = deletes.join(data, c.TABLE).where(F.col("partition") != F.col("own"))
    # It came to its own partition, and makes no other one hot.
    return reached.withColumn("snapshot", F.lit(None).cast("bigint")).select(*DATA_FILES.names)


def _by_partition(
    rules: Mapping[int, TableRules], workers: Mapping[str, RewriteWorker]
) -> Callable[[pa.Table], pa.Table]:
    """DATA_FILES of one partition of one table in, GROUPED out."""

    def group(rows: pa.Table) -> pa.Table:
        table, partition = rows[c.TABLE][0].as_py(), rows["partition"][0].as_py()
        notes = rows.filter(pc.is_valid(rows["note"]))
        if notes.num_rows:
            return pa.Table.from_pylist(notes.select([c.TABLE, "note"]).to_pylist(), schema=GROUPED)
        rule = rules[table]
        hot = is_hot(rows, rule.fresh)
        try:
            live = workers[rule.format].live_files(rows, rule.layout)
        except LakewardenError as error:
            note = error_note(table, error, f"partition {partition.hex()}:")
            return pa.Table.from_pylist([{c.TABLE: table, "note": note}], schema=GROUPED)
        found = rule.groups(partition_files(live))
        told = [{**row, "partition": partition} for one in found for row in _rows(one, table, rule, hot)]
        return pa.Table.from_pylist(told, schema=GROUPED)

    return group


def _rows(group: FileGroup, table: int, rule: TableRules, hot: bool) -> Iterator[dict[str, object]]:
    """GROUPED rows of one group."""
    settling = hot and not group.fills_a_file(rule.target)
    if settling:
        reason = f"its partition was written to less than {rule.settle_minutes} minutes ago, and has to settle first"
    elif len(group.files) == 1:
        reason = f"to be rewritten ({group.reason})"
    else:
        reason = f"one of {len(group.files)} files to be rewritten together ({group.reason})"
    # A file may be in two tables, and then so may a group: its name is one table's.
    name = hashlib.sha256(f"{rule.uuid}/{group.name}".encode()).hexdigest()[:16]
    worth = group.worth(rule.target)
    counts = asdict(worth)
    for file in group.files:
        yield {
            c.TABLE: table,
            "group": name,
            "fate": Fate.SETTLING if settling else Fate.NOW,
            "reason": reason,
            "uri": file.path,
            c.SIZE: file.size,
            "per_cost": worth.per_cost,
            **counts,
        }
        counts = dict.fromkeys(counts, 0)


@dataclass(frozen=True)
class _Writing:
    """What a writing task carries."""

    stores: Stores
    rules: Mapping[int, TableRules]
    directory: str
    ranked: Ranked
    budget: str

    def judged(self, rows: pa.Table) -> pa.Table:
        """GROUPED in and out: groups that the budget leaves out say so."""
        if self.ranked.first_beyond is None:
            return rows
        worse, name = self.ranked.first_beyond
        place = pc.negate(rows["per_cost"])
        later = pc.or_(pc.greater(place, worse), pc.and_(pc.equal(place, worse), pc.greater_equal(rows["group"], name)))
        beyond = pc.and_(pc.equal(rows["fate"], str(Fate.NOW)), later)
        why = f"beyond the budget ({self.budget}): other groups are worth more"
        for column, value in (("fate", str(Fate.BEYOND)), ("reason", why)):
            changed = pc.if_else(beyond, value, rows[column])
            rows = rows.set_column(rows.schema.get_field_index(column), column, changed)
        return rows


def _written(task: _Writing) -> Callable[[Batches], Batches]:
    """GROUPED in, one row of an answer out; GROUP_ROWS go to a file under the plan's directory."""

    def run(batches: Batches) -> Iterator[pa.RecordBatch]:
        rows = pa.Table.from_batches(list(batches), schema=GROUPED)
        noted = pc.is_valid(rows["note"])
        told = {"notes": [rows.filter(noted).select(NOTES.names)]}
        found = task.judged(rows.filter(pc.invert(noted)))
        if found.num_rows:
            told |= {"parts": [_part(task, found)], "counts": [_counts(found)]}
        yield task_answer(told, LISTS)

    return run


def _part(task: _Writing, rows: pa.Table) -> pa.Table:
    names = pa.array([task.rules[number].identifier for number in rows[c.TABLE].to_pylist()], pa.string())
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
            "group": pc.if_else(pc.equal(rows["fate"], str(Fate.NOW)), rows["group"], pa.scalar(None, pa.string())),
            "partition": rows["partition"],
        }
    ).cast(GROUP_ROWS)
    return pa.Table.from_pylist([asdict(write_part(task.stores, task.directory, table))], schema=PARTS)


def _counts(rows: pa.Table) -> pa.Table:
    sums = rows.group_by([c.TABLE, "fate"]).aggregate([(name, "sum") for name in SUMS])
    columns = {
        c.TABLE: sums[c.TABLE],
        "fate": sums["fate"],
        **{name: sums[f"{name}_sum"] for name in SUMS},
        "task": pa.repeat(uuid.uuid4().hex, sums.num_rows),
    }
    return pa.table(columns).cast(COUNTS)


def _added_up(rows: pa.Table, ranked: Ranked) -> Grouped:
    told = added_up(rows, LISTS)
    tables: dict[tuple[int, str], Worth] = {}
    for row in told["counts"]:
        key = (row[c.TABLE], row["fate"])
        tables[key] = tables.get(key, Worth()) + Worth.of(row)
    return Grouped(part_files(told["parts"]), tables, {row[c.TABLE]: row["note"] for row in told["notes"]}, ranked)
