"""What comparing tasks tell the driver: one row a task, one list for each kind of thing, added up here.

Its size is that of tables, verdicts and roots, never that of files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakewarden.model.errors import Refusal
from lakewarden.model.kept_file import KeptFile
from lakewarden.model.plan import PartFile, Tally
from lakewarden.pipeline import columns as c

# Files by table, verdict and kind.
COUNTS = pa.schema(
    [
        (c.TABLE, pa.int32()),
        ("verdict", pa.string()),
        (c.KIND, pa.string()),
        ("files", pa.int64()),
        ("bytes", pa.int64()),
    ]
)
# Files that a table must have under a root that was listed, and that no listing showed.
MISSING = pa.schema([(c.TABLE, pa.int32()), ("files", pa.int64()), ("example", pa.string())])
# Tables with live files under a root.
TOUCHES = pa.schema([(c.TABLE, pa.int32()), (c.ROOT, pa.int32())])
# Why a root is not what it seems.
SIGNS = pa.schema([(c.ROOT, pa.int32()), ("sign", pa.string()), ("example", pa.string())])
# Symbolic links under a root.
LINKS = pa.schema([("link", pa.string())])
# Tables with files that have to be opened before the plan is final.
UNKNOWN_METADATA = pa.schema([(c.TABLE, pa.int32())])
WRITER_FILES = pa.schema([(c.TABLE, pa.int32())])
# Files of the plan.
PARTS = pa.schema([("name", pa.string()), ("sha256", pa.string()), ("rows", pa.int64()), ("bytes", pa.int64())])

Lists = Mapping[str, pa.Schema]

LISTS: Lists = {
    "counts": COUNTS,
    "missing": MISSING,
    "touches": TOUCHES,
    "signs": SIGNS,
    "links": LINKS,
    "unknown_metadata": UNKNOWN_METADATA,
    "writer_files": WRITER_FILES,
    "parts": PARTS,
}


def answer_schema(lists: Lists) -> pa.Schema:
    """The shape of one task's row: a column for each list."""
    return pa.schema([(name, pa.list_(pa.struct(list(schema)))) for name, schema in lists.items()])


ANSWER = answer_schema(LISTS)

Parts = Mapping[str, Sequence[pa.Table]]


@dataclass(frozen=True)
class Answer:
    """Facts by table number and by root number.

    `needed` counts the files that each table was found to need, where that is known for all of it; `whole` are the tables
    of which every root they touch is known; `kept` are files that the reading left in the cache, `discarded` files of the
    plan whose rows do not count. `directories` are those of all local files that a holder names, `links` the symbolic
    links among the candidates: any of them may lead into a root by another name.
    """

    counts: Mapping[tuple[int, str, str], Tally] = field(default_factory=dict)
    missing: Mapping[int, tuple[int, str]] = field(default_factory=dict)
    touches: frozenset[tuple[int, int]] = frozenset()
    signs: Mapping[int, tuple[str, str]] = field(default_factory=dict)
    unknown_metadata: frozenset[int] = frozenset()
    writer_files: frozenset[int] = frozenset()
    parts: tuple[PartFile, ...] = ()
    refusals: Mapping[int, Refusal] = field(default_factory=dict)
    needed: Mapping[int, int] = field(default_factory=dict)
    whole: frozenset[int] = frozenset()
    kept: tuple[KeptFile, ...] = ()
    discarded: tuple[PartFile, ...] = ()
    directories: frozenset[str] = frozenset()
    links: frozenset[str] = frozenset()

    @staticmethod
    def of(rows: pa.Table) -> Answer:
        """The answers of all tasks together: ANSWER, one row each."""
        told = added_up(rows, LISTS)
        signs: dict[int, tuple[str, str]] = {}
        for row in told["signs"]:
            signs.setdefault(row[c.ROOT], (row["sign"], row["example"]))
        return Answer(
            counts={
                (row[c.TABLE], row["verdict"], row[c.KIND]): Tally(row["files"], row["bytes"] or 0)
                for row in told["counts"]
            },
            missing={row[c.TABLE]: (row["files"], row["example"]) for row in told["missing"]},
            touches=frozenset((row[c.TABLE], row[c.ROOT]) for row in told["touches"]),
            signs=signs,
            links=frozenset(row["link"] for row in told["links"]),
            unknown_metadata=frozenset(row[c.TABLE] for row in told["unknown_metadata"]),
            writer_files=frozenset(row[c.TABLE] for row in told["writer_files"]),
            parts=part_files(told["parts"]),
        )

    def knowing(self, refusals: Mapping[int, Refusal], kept: Sequence[KeptFile]) -> Answer:
        """With what the reading of the holders' side found."""
        return replace(self, refusals=dict(refusals), kept=tuple(kept))


def task_answer(parts: Parts, lists: Lists = LISTS) -> pa.RecordBatch:
    """One row of ANSWER, or of an answer of other lists: what one task counted, each thing once."""
    columns = []
    for name, schema in lists.items():
        table = summed(pa.concat_tables([schema.empty_table(), *parts.get(name, ())]).combine_chunks())
        values = pa.StructArray.from_arrays([_array(column) for column in table.columns], fields=list(schema))
        columns.append(pa.ListArray.from_arrays(pa.array([0, len(values)], pa.int32()), values))
    return pa.record_batch(columns, schema=answer_schema(lists))


def added_up(rows: pa.Table, lists: Lists) -> dict[str, list[dict[str, Any]]]:
    """What all tasks told, one row each: the rows of each list."""
    return {name: summed(_flat(rows[name], schema)).to_pylist() for name, schema in lists.items()}


def part_files(rows: Sequence[Mapping[str, Any]]) -> tuple[PartFile, ...]:
    """Files of the plan, from rows of PARTS."""
    return tuple(sorted((PartFile(**row) for row in rows), key=lambda part: part.name))


def _array(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)


def _flat(column: pa.ChunkedArray, schema: pa.Schema) -> pa.Table:
    values = pc.list_flatten(column).combine_chunks()
    if isinstance(values, pa.ChunkedArray):
        values = pa.concat_arrays(values.chunks) if values.num_chunks else pa.array([], values.type)
    return pa.table([values.field(name).cast(schema.field(name).type) for name in schema.names], schema=schema)


def summed(table: pa.Table) -> pa.Table:
    """Rows that say the same thing as one row."""
    schema = table.schema
    if schema.equals(PARTS) or not table.num_rows:
        return table
    sums = [key for key in ("files", "bytes") if key in schema.names]
    least = ["example"] if "example" in schema.names else []
    keys = [key for key in schema.names if key not in (*sums, *least)]
    asked = [*((key, "sum") for key in sums), *((key, "min") for key in least)]
    found = table.group_by(keys).aggregate(asked)
    renamed = {f"{key}_{how}": key for key, how in asked}
    return found.rename_columns([renamed.get(key, key) for key in found.column_names]).select(schema.names).cast(schema)
