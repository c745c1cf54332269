"""Paimon's manifest lists, manifests and index manifests as rows: which fields matter, and what they mean."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakewarden.formats.paimon.metadata.names import NAMES
from lakewarden.model.errors import UnsupportedTableError
from lakewarden.model.ports import Blobs, ReadAvro, Rows
from lakewarden.model.table import TableState

# Column of ours -> the format's. Fields at the end of a row are absent in files of older versions.
LIST_FIELDS = {
    "path": "_FILE_NAME",
    "length": "_FILE_SIZE",
    "added": "_NUM_ADDED_FILES",
    "deleted": "_NUM_DELETED_FILES",
    "extra": "_EXTRA_FILES",
}
MANIFEST_FIELDS = {
    "path": "_FILE._FILE_NAME",
    "status": "_KIND",
    "extra": "_FILE._EXTRA_FILES",
    "external": "_FILE._EXTERNAL_PATH",
    "size": "_FILE._FILE_SIZE",
}
PARTITION_FIELDS = {
    "partition": "_PARTITION",
    "status": "_KIND",
    "created": "_FILE._CREATION_TIME",
    "records": "_FILE._ROW_COUNT",
    "deletes": "_FILE._DELETE_ROW_COUNT",
    "bytes": "_FILE._FILE_SIZE",
}
INDEX_FIELDS = {"path": "_FILE_NAME", "status": "_KIND", "external": "_EXTERNAL_PATH"}
INDEX_MARK = "_INDEX_TYPE"
OPTIONAL = frozenset({"extra", "external", "created", "size", "deletes"})
ADDED = 0  # the kind of an entry: 0 adds a file, 1 deletes it


class PaimonReader:
    """The Avro side of the format, carried to executors.

    Entries of both kinds name files that must stay: what a later commit dropped is still read by earlier snapshots.
    """

    format = "paimon"
    names = NAMES
    by_name = True
    keeps_deleted = True

    def recogniser(
        self, states: Iterable[TableState], since: datetime, abandoned: Collection[str]
    ) -> Callable[..., dict[str, object] | None]:
        """Nothing to recognise: all metadata of a table lies in its own directory, and all of it is read."""
        return _nothing

    def manifests(self, blobs: Blobs, avro: ReadAvro) -> Rows:
        found = avro(blobs, list_columns).each(_manifests)
        # A table's first commit has an empty list of what was there before, so an empty one is no cause for doubt.
        return found._replace(doubts={index: why for index, why in found.doubts.items() if found.counts[index]})

    def entries(self, blobs: Blobs, avro: ReadAvro) -> Rows:
        return avro(blobs, manifest_columns).each(_entries)

    def partitions(self, blobs: Blobs, avro: ReadAvro) -> Rows:
        return avro(blobs, partition_columns).each(_partitions)


def list_columns(names: Iterable[str]) -> Mapping[str, str]:
    return _pick(LIST_FIELDS, set(names), "manifest list")


def manifest_columns(names: Iterable[str]) -> Mapping[str, str]:
    present = set(names)
    if INDEX_MARK in present:
        return _pick(INDEX_FIELDS, present, "index manifest")
    return _pick(MANIFEST_FIELDS, present, "manifest")


def partition_columns(names: Iterable[str]) -> Mapping[str, str]:
    return _pick(PARTITION_FIELDS, set(names), "manifest")


def _manifests(table: pa.Table) -> pa.Table:
    """Every entry counts, added or deleted."""
    rows = pc.add(table["added"].cast(pa.int64()), table["deleted"].cast(pa.int64()))
    content = pa.repeat(0, table.num_rows)
    return _with_extra(
        table, {"path": table["path"], "length": table["length"], "rows": rows, "live": rows, "content": content}
    )


def _entries(table: pa.Table) -> pa.Table:
    # An entry that does not say what it is counts as added: its file stays.
    deleted = pc.fill_null(pc.not_equal(table["status"], ADDED), False)
    columns = {"path": table["path"], "deleted": deleted, "content": pa.repeat(0, table.num_rows)}
    if "external" in table.column_names and table["external"].null_count < table.num_rows:
        # A writer may have been told where to write by an option that no schema has: only the entry knows.
        columns["external"] = table["external"]
    return _with_extra(table, columns)


def _with_extra(table: pa.Table, columns: dict[str, Any]) -> pa.Table:
    return pa.table(columns | {name: table[name] for name in ("extra", "size") if name in table.column_names})


def _partitions(table: pa.Table) -> pa.Table:
    signs = pc.if_else(pc.equal(table["status"], ADDED), 1, -1).cast(pa.int64())
    records, size = _numbers(table, "records"), _numbers(table, "bytes")
    if records.null_count or size.null_count:
        raise ValueError("an entry does not say how many records or bytes its file has")
    # A record that deletes a row counts as a record of its file.
    deletes = pc.fill_null(_numbers(table, "deletes"), 0)
    rows = pc.subtract(records, deletes)
    return pa.table(
        {
            "partition": table["partition"].cast(pa.binary()),
            "files": signs,
            "rows": pc.multiply(signs, rows),
            "deletes": pc.multiply(signs, deletes),
            "bytes": pc.multiply(signs, size),
            "created": _millis(table),
        }
    )


def _numbers(entries: pa.Table, name: str) -> Any:
    return entries[name].cast(pa.int64()) if name in entries.column_names else pa.nulls(entries.num_rows, pa.int64())


def _millis(entries: pa.Table) -> Any:
    if "created" not in entries.column_names:
        return pa.nulls(entries.num_rows, pa.int64())
    column = entries["created"]
    return (column.cast(pa.timestamp("ms")) if pa.types.is_timestamp(column.type) else column).cast(pa.int64())


def _nothing(*_: object, **__: object) -> None:
    return None


def _pick(wanted: Mapping[str, str], present: Collection[str], what: str) -> dict[str, str]:
    for column, name in wanted.items():
        if name not in present and column not in OPTIONAL:
            raise UnsupportedTableError(f"a {what} has no field {name}")
    return {column: name for column, name in wanted.items() if name in present}
