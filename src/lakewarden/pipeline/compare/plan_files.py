"""The last step of a sweep: judge, write the plan's Parquet files, and tell the driver what was counted.

The files go straight from the tasks to the plan's directory; only an ANSWER comes back.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakewarden.model.plan import FILES_DIR, PartFile
from lakewarden.model.roots import BY_NAME
from lakewarden.model.verdict import Kind
from lakewarden.pipeline import columns as c
from lakewarden.pipeline.compare.answer import (
    COUNTS,
    LINKS,
    LISTS,
    MISSING,
    PARTS,
    SIGNS,
    TOUCHES,
    UNKNOWN_METADATA,
    WRITER_FILES,
    task_answer,
)
from lakewarden.pipeline.compare.verdicts import STREAMING, Rules, judge, live_kinds
from lakewarden.pipeline.read.names import KIND_CODES, METADATA_JSON, SOFT
from lakewarden.storage.store import SYMLINK, UNLISTABLE
from lakewarden.storage.stores import Stores

ROWS_PER_PART = 250_000


@dataclass(frozen=True)
class JudgeTask:
    """What a judging task carries: the rules, the tables' names, where the plan's files go.

    `homes` has the roots whose files are compared by name, `by_name` their tables, and `whole` those of these tables
    all of whose roots are listed.
    """

    stores: Stores
    rules: Rules
    identifiers: tuple[str, ...]
    directory: str
    prefixes: tuple[str, ...]
    homes: Mapping[int, str] = field(default_factory=dict)
    by_name: frozenset[str] = frozenset()
    whole: frozenset[int] = frozenset()


def judge_and_write(task: JudgeTask) -> Callable[[Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]]:
    """JOINED in, one row of ANSWER out; PLAN_ROWS go to Parquet files under the plan's directory."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        waiting: list[pa.Table] = []
        told: dict[str, list[pa.Table]] = {name: [] for name in LISTS}
        for batch in batches:
            rows = pa.Table.from_batches([batch])
            listed, missing = _split(rows, task)
            told["missing"].append(_missing(missing))
            linked = pc.fill_null(pc.equal(listed[c.FLAG], SYMLINK), False)
            needed = pc.not_equal(pc.bit_wise_and(pc.fill_null(listed[c.MARK], 0), c.MARK_LIVE), 0)
            # Live rows come without their names, but for links. A link that is needed is counted as any needed file, and
            # is never a row of the plan: a second look would judge it by the tables alone that moved.
            live = pc.or_(pc.is_null(listed[c.KEY]), pc.and_(linked, needed))
            told["links"].append(listed.filter(linked).select([c.KEY]).rename_columns(LINKS.names))
            if (strange := listed.filter(pc.or_(pc.invert(live), linked))).num_rows:
                told["signs"].append(signs_of(strange, task.rules))
            told["counts"].append(_counts(_live(listed.filter(live))))
            told["touches"].append(_touches(listed.filter(live)))
            rest = listed.filter(pc.invert(live))
            if rest.num_rows:
                judged = judge(rest, task.rules)
                told["counts"].append(_counts(judged))
                _to_open(judged, told)
                if judged.num_rows:
                    waiting.append(judged)
                if sum(table.num_rows for table in waiting) >= ROWS_PER_PART:
                    told["parts"].append(_write(task, waiting))
                    waiting = []
        if waiting:
            told["parts"].append(_write(task, waiting))
        yield task_answer(told)

    return run


def _split(rows: pa.Table, task: JudgeTask) -> tuple[pa.Table, pa.Table]:
    """Listed objects; files that a table needs under a swept root but that no listing showed."""
    listed = pc.is_valid(rows[c.ROOT])
    unlisted = rows.filter(pc.invert(listed))
    needed = pc.not_equal(pc.bit_wise_and(pc.fill_null(unlisted[c.MARK], 0), c.MARK_LIVE), 0)
    certain = pc.less(pc.fill_null(unlisted[c.KIND], 0), SOFT)
    unlisted = unlisted.filter(pc.and_(needed, certain))
    expected = pc.or_(_under(unlisted[c.KEY], task.prefixes), _expected_by_name(unlisted, task.whole))
    return rows.filter(listed), unlisted.filter(expected)


def _expected_by_name(rows: pa.Table, whole: frozenset[int]) -> pa.Array:
    """Whether each file known by name must have been listed. Data files need not: a manifest may still name what an
    expiry has removed, and only the merge of all of a snapshot's manifests says which of them is live."""
    named = pc.starts_with(rows[c.KEY], BY_NAME)
    metadata = pc.not_equal(rows[c.KIND], KIND_CODES[Kind.DATA])
    return pc.and_(pc.and_(named, metadata), pc.is_in(rows[c.TABLE], pa.array(sorted(whole), pa.int32())))


def _under(keys: pa.ChunkedArray, prefixes: tuple[str, ...]) -> pa.Array:
    """Whether each key lies under one of the sorted, disjoint prefixes."""
    if not len(keys):
        return pa.array([], pa.bool_())
    values = keys.to_numpy()
    nearest = np.searchsorted(np.array(prefixes, dtype=object), values, side="right") - 1
    # Few rows come here: a needed file that no listing showed is rare, and one outside every root was dropped before.
    return pa.array(
        [i >= 0 and value.startswith(prefixes[i]) for i, value in zip(nearest, values, strict=True)], pa.bool_()
    )


def _live(rows: pa.Table) -> pa.Table:
    return pa.table(
        {
            c.TABLE: rows[c.TABLE],
            "verdict": pa.repeat("live", rows.num_rows),
            c.KIND: live_kinds(rows[c.KIND].combine_chunks()),
            c.SIZE: rows[c.SIZE],
        }
    )


def _touches(rows: pa.Table) -> pa.Table:
    """Which tables have live files under which roots: not always their own."""
    others = rows.filter(pc.is_valid(rows["other"])).select(["other", c.ROOT]).rename_columns([c.TABLE, c.ROOT])
    both = pa.concat_tables([rows.select([c.TABLE, c.ROOT]), others]).group_by([c.TABLE, c.ROOT]).aggregate([])
    return both.select(TOUCHES.names).cast(TOUCHES)


def _counts(rows: pa.Table) -> pa.Table:
    keys = [c.TABLE, "verdict", c.KIND]
    sums = rows.select([*keys, c.SIZE]).group_by(keys).aggregate([(c.SIZE, "count"), (c.SIZE, "sum")])
    return sums.rename_columns([*keys, "files", "bytes"]).cast(COUNTS)


def _missing(rows: pa.Table) -> pa.Table:
    sums = rows.select([c.TABLE, c.KEY]).group_by([c.TABLE]).aggregate([(c.KEY, "count"), (c.KEY, "min")])
    return sums.rename_columns([c.TABLE, "files", "example"]).cast(MISSING)


def signs_of(rows: pa.Table, rules: Rules) -> pa.Table:
    """That a root is not what it seems: links, unlistable names, another format's files."""
    flags = rows[c.FLAG].combine_chunks()
    keys = rows[c.KEY].combine_chunks()
    signs = pc.if_else(
        pc.fill_null(pc.starts_with(flags, UNLISTABLE), False),
        "unlistable",
        pc.if_else(pc.equal(flags, SYMLINK), "symlink", None),
    )
    formats = rules.formats_of_roots(rows[c.ROOT].to_numpy())
    for number, names in enumerate(rules.names):
        mine = pa.array(formats == number)
        for name, pattern in names.foreign.items():
            foreign = pc.and_(mine, pc.match_substring_regex(keys, pattern))
            signs = pc.coalesce(signs, pc.if_else(foreign, name, None))
    text = pc.if_else(pc.equal(signs, "unlistable"), pc.binary_join_element_wise(keys, flags, ": "), keys)
    return pa.table({c.ROOT: rows[c.ROOT], "sign": signs, "example": text}).filter(pc.is_valid(signs)).cast(SIGNS)


def _to_open(judged: pa.Table, told: dict[str, list[pa.Table]]) -> None:
    """Files that have to be opened before the plan is final: unknown metadata, streaming writers' manifests."""
    names = judged["relative"].combine_chunks()
    unreached = pc.not_equal(judged["verdict"], "live")
    strange = judged.filter(pc.and_(unreached, pc.match_substring_regex(names, METADATA_JSON)))
    writers = judged.filter(pc.and_(pc.equal(judged["reason"], STREAMING), pc.ends_with(names, ".avro")))
    told["unknown_metadata"].append(strange.select([c.TABLE]).cast(UNKNOWN_METADATA))
    told["writer_files"].append(writers.select([c.TABLE]).cast(WRITER_FILES))


def _write(task: JudgeTask, judged: list[pa.Table]) -> pa.Table:
    table = pa.concat_tables(judged)
    named = pa.array(task.identifiers, pa.string()).take(table[c.TABLE].combine_chunks())
    rows = table.append_column("table", named).select(c.PLAN_ROWS.names).cast(c.PLAN_ROWS)
    part = write_part(task.stores, task.directory, rows)
    return pa.Table.from_pylist([asdict(part)], schema=PARTS)


def write_part(stores: Stores, directory: str, rows: pa.Table) -> PartFile:
    """Write PLAN_ROWS, and what columns a job has beside them, as one of a plan's files."""
    sink = pa.BufferOutputStream()
    pq.write_table(rows.sort_by("verdict"), sink, compression="zstd", write_page_checksum=True)
    data = sink.getvalue().to_pybytes()
    name = f"{FILES_DIR}/part-{uuid.uuid4().hex}.parquet"
    stores.put(directory + name, data)
    return PartFile(name, hashlib.sha256(data).hexdigest(), rows.num_rows, len(data))


def empty_part() -> bytes:
    """A plan file without rows, for the place of one whose rows were judged again."""
    sink = pa.BufferOutputStream()
    pq.write_table(c.PLAN_ROWS.empty_table(), sink)
    return bytes(sink.getvalue().to_pybytes())
