"""The one question, in several cases at once: which listed files would nobody need any more, in each of them?

The holders of every case come under a bit of its own, all bits of a file are added up by one join, and each case is
then judged by the rules of the comparison itself. Nothing is written, and only counts come back to the driver.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakewarden.model.verdict import Kind
from lakewarden.pipeline import columns as c
from lakewarden.pipeline.compare import by_join
from lakewarden.pipeline.compare.answer import LINKS, SIGNS, Answer, Lists, added_up, answer_schema, task_answer
from lakewarden.pipeline.compare.candidates import Candidates
from lakewarden.pipeline.compare.compare import Comparison, listed_rows, whatever_the_cache_does
from lakewarden.pipeline.compare.holders import Holders
from lakewarden.pipeline.compare.needs import keep_names, name_manifests
from lakewarden.pipeline.compare.plan_files import JudgeTask, signs_of
from lakewarden.pipeline.compare.verdicts import Rules, judge
from lakewarden.pipeline.read.frames import in_tasks
from lakewarden.storage.store import SYMLINK

# Files that nobody needs, by case and table. `data`: data files; `small` and `recent` as the task asks.
LEVEL_COUNTS = pa.schema(
    [
        ("level", pa.int32()),
        (c.TABLE, pa.int32()),
        ("data", pa.bool_()),
        ("small", pa.bool_()),
        ("recent", pa.bool_()),
        ("files", pa.int64()),
        ("bytes", pa.int64()),
    ]
)
LISTS: Lists = {"counts": LEVEL_COUNTS, "signs": SIGNS, "links": LINKS}
_KEYS = LEVEL_COUNTS.names[:5]


@dataclass(frozen=True)
class Level:
    """One case: the mark of whatever is needed in it, the rules, and the roots that are looked at. Mark 0: nothing is."""

    mark: int
    rules: Rules
    roots: frozenset[int]


@dataclass(frozen=True)
class LevelTask:
    """What a counting task carries. Small is what has fewer bytes, recent what was written since (epoch microseconds)."""

    levels: tuple[Level, ...]
    small_bytes: int
    since: int


def compare_by_level(
    holders: Holders, candidates: Candidates, task: JudgeTask, counting: LevelTask, asked: Comparison
) -> tuple[Answer, list[dict[str, Any]]]:
    """What reading found (refusals, links, what the cache was given), and the rows of LEVEL_COUNTS."""
    named = name_manifests(asked.spark, holders, asked.read, asked.cache)

    def once(asked: Comparison) -> tuple[Answer, list[dict[str, Any]]]:
        spark, stores = asked.spark(), asked.read.stores
        names = keep_names(asked.spark, named, asked.read, asked.cache)
        found = by_join.joined(
            listed_rows(spark, candidates, asked), by_join.marks(spark, named, names, stores), task
        ).select(*c.JOINED.names)
        rows = in_tasks(found, count_by_level(counting, task.rules), answer_schema(LISTS)).toArrow()
        told = added_up(rows, LISTS)
        answer = Answer(
            signs={row[c.ROOT]: (row["sign"], row["example"]) for row in reversed(told["signs"])},
            links=frozenset(row["link"] for row in told["links"]),
            directories=names.directories | named.directories,
        ).knowing({**names.refusals, **named.refusals}, (*named.kept, *names.kept))
        return answer, told["counts"]

    return whatever_the_cache_does(once, asked)


def count_by_level(task: LevelTask, rules: Rules) -> Callable[[Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]]:
    """JOINED in, one row of LISTS out."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        told: dict[str, list[pa.Table]] = {name: [] for name in LISTS}
        for batch in batches:
            rows = pa.Table.from_batches([batch])
            rows = rows.filter(pc.is_valid(rows[c.ROOT]))
            linked = pc.fill_null(pc.equal(rows[c.FLAG], SYMLINK), False)
            told["links"].append(rows.filter(linked).select([c.KEY]).rename_columns(LINKS.names))
            unnamed = pc.equal(pc.fill_null(rows[c.MARK], 0), 0)
            if (strange := rows.filter(pc.or_(unnamed, linked))).num_rows:
                told["signs"].append(signs_of(strange, rules))
            told["counts"] += counts_by_level(rows, task)
        yield task_answer(told, LISTS)

    return run


def counts_by_level(rows: pa.Table, task: LevelTask) -> Iterator[pa.Table]:
    """LEVEL_COUNTS of JOINED rows that were listed, one table for each case. Pure."""
    marks = pc.fill_null(rows[c.MARK], 0)
    named = pc.bit_wise_and(marks, c.MARK_RELEASED)
    for number, level in enumerate(task.levels):
        mine = pc.and_(
            pc.is_in(rows[c.ROOT], pa.array(sorted(level.roots), pa.int32())),
            pc.equal(pc.bit_wise_and(marks, level.mark), 0),
        )
        asked = rows.set_column(rows.schema.get_field_index(c.MARK), c.MARK, named).filter(mine)
        if asked.num_rows:
            judged = judge(asked, level.rules)
            yield _counts(judged.filter(pc.equal(judged["verdict"], str(level.rules.changing))), number, task)


def _counts(rows: pa.Table, level: int, task: LevelTask) -> pa.Table:
    modified = rows[c.MODIFIED].cast(pa.int64())
    columns = {
        "level": pa.repeat(pa.scalar(level, pa.int32()), rows.num_rows),
        c.TABLE: rows[c.TABLE],
        "data": pc.equal(rows[c.KIND], str(Kind.DATA)),
        "small": pc.less(rows[c.SIZE], task.small_bytes),
        "recent": pc.fill_null(pc.greater_equal(modified, task.since), False),
        c.SIZE: rows[c.SIZE],
    }
    sums = pa.table(columns).group_by(_KEYS).aggregate([(c.SIZE, "count"), (c.SIZE, "sum")])
    return sums.rename_columns(LEVEL_COUNTS.names).cast(LEVEL_COUNTS)
