"""What planning reads of a table's files, in tasks: live files by bucket, with the rows that their vectors delete.

A manifest may take away what another one added, so what is live is known only once the entries of a bucket are together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakewarden.formats.paimon.compaction.head import VECTORS
from lakewarden.formats.paimon.compaction.layout import Layout, bucket_key, of_bucket_key
from lakewarden.formats.paimon.manifests.reader import ADDED, INDEX_MARK
from lakewarden.model.errors import UnsupportedTableError
from lakewarden.model.ports import Blobs, Part, ReadAvro, Rows, each_part
from lakewarden.model.uri import canonical

DATA, DELETES, TAKEN, OTHER = 0, 1, 3, 4
_ENTRY = {
    "partition": "_PARTITION",
    "bucket": "_BUCKET",
    "status": "_KIND",
    "path": "_FILE._FILE_NAME",
    "size": "_FILE._FILE_SIZE",
    "rows": "_FILE._ROW_COUNT",
    "sequence": "_FILE._MIN_SEQUENCE_NUMBER",
    "last_sequence": "_FILE._MAX_SEQUENCE_NUMBER",
    "level": "_FILE._LEVEL",
    "extra": "_FILE._EXTRA_FILES",
    "embedded": "_FILE._EMBEDDED_FILE_INDEX",
    "external": "_FILE._EXTERNAL_PATH",
}
_INDEX = {
    "partition": "_PARTITION",
    "bucket": "_BUCKET",
    "kind": INDEX_MARK,
    "ranges": "_DELETIONS_VECTORS_RANGES",
}
_OPTIONAL = frozenset({"extra", "embedded", "external", "ranges"})


def data_files(blobs: Blobs, avro: ReadAvro) -> Rows:
    """What manifests and index manifests hold, a row a file or vector; `partition` is the key of a bucket.

    Files that nobody here could rewrite are OTHER: other formats than Parquet, files with an index beside them.
    """
    found = avro(blobs, _columns)
    errors = dict(found.errors)
    parts = each_part(found.parts, errors, _vectors_or_files)
    return Rows(parts, found.counts, errors, found.doubts)


def _columns(names: Iterable[str]) -> Mapping[str, str]:
    present = set(names)
    wanted = _INDEX if INDEX_MARK in present else _ENTRY
    for column, name in wanted.items():
        if name not in present and column not in _OPTIONAL:
            raise UnsupportedTableError(f"a manifest has no field {name}")
    return {column: name for column, name in wanted.items() if name in present}


def _vectors_or_files(part: Part) -> Part:
    return _vectors(part) if "kind" in part.table.column_names else _files(part)


def _keys(rows: pa.Table) -> pa.Array:
    partitions, buckets = rows["partition"].to_pylist(), rows["bucket"].to_pylist()
    return pa.array([bucket_key(p, b) for p, b in zip(partitions, buckets, strict=True)], pa.binary())


def _files(part: Part) -> Part:
    rows = part.table
    ours = pc.and_(pc.ends_with(rows["path"], ".parquet"), pc.equal(rows["level"], 0))
    if "extra" in rows.column_names:
        ours = pc.and_(ours, pc.equal(pc.fill_null(pc.list_value_length(rows["extra"]), 0), 0))
    if "embedded" in rows.column_names:
        ours = pc.and_(ours, pc.is_null(rows["embedded"]))
    # A file that lies elsewhere says so with its whole address.
    path = pc.coalesce(rows["external"], rows["path"]) if "external" in rows.column_names else rows["path"]
    added = pc.equal(rows["status"], ADDED)
    content = pc.if_else(added, pc.if_else(ours, DATA, OTHER), TAKEN)
    table = pa.table(
        {
            "partition": _keys(rows),
            "content": content.cast(pa.int32()),
            "path": path,
            "size": rows["size"],
            "rows": rows["rows"],
            "about": pa.nulls(rows.num_rows, pa.string()),
            "sequence": rows["sequence"],
            "last_sequence": rows["last_sequence"],
        }
    )
    return Part(table, part.owner)


def _vectors(part: Part) -> Part:
    """A row for each vector: whose rows it deletes, and how many."""
    if "ranges" not in part.table.column_names:
        return _vectors(
            Part(part.table.append_column("ranges", pa.nulls(part.table.num_rows)).slice(0, 0), part.owner[:0])
        )
    kept = np.asarray(pc.and_(pc.equal(part.table["kind"], VECTORS), pc.is_valid(part.table["ranges"])))
    rows, owner = part.table.filter(pa.array(kept)), part.owner[kept]
    whole = rows["ranges"].combine_chunks()
    places = pc.list_parent_indices(whole).to_numpy().astype(np.int64)
    each = pc.list_flatten(whole)
    blank = pa.nulls(len(each), pa.string())
    counted: Any = pc.struct_field(each, "_CARDINALITY") if _has(each.type, "_CARDINALITY") else blank.cast(pa.int64())
    table = pa.table(
        {
            "partition": _keys(rows).take(pa.array(places)),
            "content": pa.repeat(pa.scalar(DELETES, pa.int32()), len(each)),
            "path": blank,
            "size": pa.repeat(pa.scalar(0, pa.int64()), len(each)),
            "rows": pc.fill_null(counted, 0).cast(pa.int64()),
            "about": pc.struct_field(each, "f0").cast(pa.string()),
        }
    )
    return Part(table, owner[places])


def _has(kind: pa.DataType, name: str) -> bool:
    return int(kind.get_field_index(name)) >= 0


def live_by_address(rows: pa.Table, layout: Layout) -> pa.Table:
    """Rows of one bucket: the live files that can be rewritten, and the vectors on them, by the addresses of the files.

    In a bucket that keeps the order of its rows, `sequence` becomes the place of a file, and files whose place is not clear
    are left out.
    """
    partition, bucket = of_bucket_key(rows["partition"][0].as_py())
    directory = layout.directory(partition, bucket)
    taken = rows.filter(pc.equal(rows["content"], TAKEN))["path"]
    live = rows.filter(
        pc.and_(
            pc.not_equal(rows["content"], TAKEN), pc.invert(pc.is_in(rows["path"], value_set=taken.combine_chunks()))
        )
    )
    live = in_order(live) if layout.ordered else live.filter(pc.not_equal(live["content"], OTHER))
    outside = {path.rpartition("/")[2]: canonical(path) for path in live["path"].to_pylist() if path and "/" in path}
    columns = {
        name: pa.array([_address(text, directory, outside) for text in live[name].to_pylist()], pa.string())
        for name in ("path", "about")
    }
    for name, column in columns.items():
        live = live.set_column(live.schema.get_field_index(name), name, column)
    return live


def in_order(live: pa.Table) -> pa.Table:
    """The files whose rows are numbered apart from all others', each with its place; a place that no file has stands for
    what has to stay where it is: a file that nobody here rewrites, or several with the same numbers (two writers at once).
    """
    content, first, last = (live[name].to_pylist() for name in ("content", "sequence", "last_sequence"))
    files = [row for row, kind in enumerate(content) if kind in (DATA, OTHER)]
    stretches: list[list[int]] = []
    highest = -1
    for row in sorted(files, key=lambda row: (first[row], last[row])):
        if stretches and first[row] <= highest:
            stretches[-1].append(row)
        else:
            stretches.append([row])
        highest = max(highest, last[row])
    places = {some[0]: place for place, some in enumerate(stretches) if len(some) == 1 and content[some[0]] == DATA}
    kept = [row for row, kind in enumerate(content) if row in places or kind == DELETES]
    numbers = pa.array([places.get(row) for row in kept], pa.int64())
    return live.take(kept).set_column(live.schema.get_field_index("sequence"), "sequence", numbers)


def _address(name: str | None, directory: str, outside: Mapping[str, str]) -> str | None:
    if name is None:
        return None
    return canonical(name) if "/" in name else outside.get(name, f"{directory}{name}")
