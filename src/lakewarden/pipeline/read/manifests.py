"""What tasks do with lists and manifests: have them read whole by their format, prove it, and say what they name.

A format turns bytes into rows of our columns (`model.ports.Reader`). What is the same for every format is here: how many
files are read together, byte lengths, counts, and what a row means for the comparison.

These functions run on executors. A file that cannot be proven whole becomes a note for the driver, which
refuses its table; the task, and the other tables, go on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lakewarden.model.errors import IncompleteManifestError, UnknownAddressError, UnprovenListError
from lakewarden.model.ports import Part, Reader, each_part
from lakewarden.model.roots import match_key
from lakewarden.model.uri import canonical
from lakewarden.model.verdict import Kind
from lakewarden.pipeline import columns as c
from lakewarden.pipeline.read.avro.decode import decode_files, warm_up
from lakewarden.pipeline.read.names import KIND_CODES, SOFT, canonical_column, directories
from lakewarden.pipeline.read.notes import NOTE, error_note
from lakewarden.storage.stores import Stores

# Up to so many lists the driver is done before a Spark stage has begun.
FEW_LISTS = 6_000
FILES_AT_ONCE = 1024
BYTES_AT_ONCE = 48 << 20
GUESSED_LIST_BYTES = 16 << 10

Batches = Iterable[pa.RecordBatch]
Row = dict[str, Any]
Errors = dict[int, Exception]


@dataclass(frozen=True)
class ReadTask:
    """What a reading task carries: the stores, and each format's reader. The driver reads `few_lists` without a task."""

    stores: Stores
    readers: Mapping[str, Reader]
    few_lists: int = FEW_LISTS


def read_lists(task: ReadTask, schema: pa.Schema = c.MANIFESTS) -> Callable[[Batches], Batches]:
    """LISTS in, MANIFESTS (or INHERITED) out: what each list names. An error is a row whose path is a note."""

    def run(batches: Batches) -> Batches:
        for rows in _chunks(batches, lambda _: GUESSED_LIST_BYTES):
            blobs = sized(rows, task.stores.get_many([canonical(row["uri"]) for row in rows]))
            reader = task.readers[rows[0]["format"]]
            parts, _, errors, doubts = reader.manifests(blobs, decode_files)
            found = each_part(parts, errors, partial(_manifests, rows, reader, schema))
            _check_totals(rows, found, errors, doubts)
            kept = [_without(errors, table, table["owner"].to_numpy()) for table in found]
            notes = _notes(rows, errors, "uri")
            named = once(pa.concat_tables([schema.empty_table(), *(t.select(schema.names) for t in kept)]))
            yield from _together([named, _noted_manifests(notes, schema)])

    return run


def once(manifests: pa.Table) -> pa.Table:
    """Each manifest once, certain if any of its lists is: the lists of a table's snapshots name mostly the same ones."""
    keys = [name for name in manifests.column_names if name != "soft"]
    found = manifests.group_by(keys).aggregate([("soft", "min")]).rename_columns([*keys, "soft"])
    return found.select(manifests.column_names).cast(manifests.schema)


def read_manifests(task: ReadTask) -> Callable[[Batches], Batches]:
    """MANIFESTS in, MARKS out: each manifest and every live file it names."""

    def run(batches: Batches) -> Batches:
        for rows in _chunks(batches, lambda row: row["length"] or 0):
            notes = [(row[c.TABLE], row["path"]) for row in rows if row["path"].startswith(NOTE)]
            rows = [row for row in rows if not row["path"].startswith(NOTE)]
            marks = [_sidecars([row for row in rows if row["content"] == c.CONTENT_SIDECAR])]
            rows = [row for row in rows if row["content"] != c.CONTENT_SIDECAR]
            if rows:
                reader = task.readers[rows[0]["format"]]
                live, errors = _named_by(task, rows, reader)
                marks += [*live, _manifests_themselves(rows, errors)]
                notes += _notes(rows, errors, "path")
            yield from _together([*(table.select(c.MARKS.names) for table in marks), _noted_marks(notes)])

    return run


def read_entries(task: ReadTask) -> Callable[[Batches], Iterable[tuple[list[int], pa.Table, list[str]]]]:
    """MANIFESTS (no side-car among them) in; for each chunk the numbers of the whole ones, NAMED files, notes."""

    def run(batches: Batches) -> Iterable[tuple[list[int], pa.Table, list[str]]]:
        for rows in _chunks(batches, lambda row: row["length"] or 0):
            live, errors = _named_by(task, rows, task.readers[rows[0]["format"]])
            whole = [row[c.TABLE] for index, row in enumerate(rows) if index not in errors]
            marks = pa.concat_tables([c.NAMED.empty_table(), *(table.select(c.NAMED.names) for table in live)])
            yield whole, marks, [note for _, note in _notes(rows, errors, "path")]

    return run


def _named_by(task: ReadTask, rows: list[Row], reader: Reader) -> tuple[list[pa.Table], Errors]:
    """The files that whole manifests of one format name, and the error of each that is not whole."""
    blobs = sized(rows, task.stores.get_many([row["path"] for row in rows]))
    parts, counts, errors, doubts = reader.entries(blobs, decode_files)
    live = each_part(parts, errors, partial(_named_files, rows, reader))
    _check_counts(rows, counts, live, errors)
    for index in doubts.keys() - errors.keys():
        if rows[index]["length"] is None and rows[index]["rows"] is None:
            errors[index] = unproven(doubts[index])
    return [_without(errors, table, table["owner"].to_numpy()) for table in live], errors


def _chunks(batches: Batches, weigh: Callable[[Row], int]) -> Iterator[list[Row]]:
    """Rows of one format to read together: few enough to hold their bytes. One row per file, never per entry."""
    waiting: dict[str, list[Row]] = {}
    weight = 0
    for batch in batches:
        for row in batch.to_pylist():
            if not waiting and not weight:
                warm_up()
            waiting.setdefault(row["format"], []).append(row)
            weight += weigh(row)
            if len(waiting[row["format"]]) >= FILES_AT_ONCE or weight >= BYTES_AT_ONCE:
                yield from waiting.values()
                waiting, weight = {}, 0
    yield from waiting.values()


def sized(rows: list[Row], blobs: list[bytes | Exception]) -> list[bytes | Exception]:
    """The bytes, or an error where their number is not the one that the list, or for a list the snapshot, recorded."""
    return [
        IncompleteManifestError(f"has {len(blob)} bytes where its {named_by(row)} says {row['length']}")
        if isinstance(blob, bytes) and row["length"] is not None and len(blob) != row["length"]
        else blob
        for row, blob in zip(rows, blobs, strict=True)
    ]


def named_by(row: Row) -> str:
    return "list" if "path" in row else "snapshot"


def _manifests(rows: list[Row], reader: Reader, schema: pa.Schema, part: Part) -> pa.Table:
    table, owner = part.table, part.owner
    paths = _column(table, "path", pa.string())
    found = pa.table(
        {
            **_carried(rows, owner),
            "path": _beside(rows, owner, paths) if reader.by_name else canonical_column(paths),
            "length": _column(table, "length", pa.int64()),
            "rows": _column(table, "rows", pa.int64()),
            "live": _column(table, "live", pa.int64()),
            "content": pc.fill_null(_column(table, "content", pa.int32()), 0),
            "owner": pa.array(owner),
            **{
                name: _column(table, name, pa.int64())
                if name in table.column_names
                else pa.nulls(len(paths), pa.int64())
                for name in schema.names
                if name not in c.MANIFESTS.names
            },
        }
    )
    if "extra" not in table.column_names:
        return found
    names, places = _flattened(table["extra"])
    owner = owner[places]
    blank = pa.nulls(len(names), pa.int64())
    beside = pa.table(
        {
            **_carried(rows, owner),
            "path": _beside(rows, owner, names),
            "length": blank,
            "rows": pa.repeat(pa.scalar(0, pa.int64()), len(names)),
            "live": pa.repeat(pa.scalar(0, pa.int64()), len(names)),
            "content": pa.repeat(pa.scalar(c.CONTENT_SIDECAR, pa.int32()), len(names)),
            "owner": pa.array(owner),
        }
    )
    return pa.concat_tables([found, beside], promote_options="default")


def _carried(rows: list[Row], owner: NDArray[np.int64]) -> dict[str, pa.Array]:
    """What a manifest inherits from the list that names it."""
    return {
        c.TABLE: _take(rows, c.TABLE, pa.int32(), owner),
        "format": _take(rows, "format", pa.string(), owner),
        "soft": _take(rows, "soft", pa.bool_(), owner),
        c.HOME: _take(rows, c.HOME, pa.string(), owner),
    }


def _beside(rows: list[Row], owner: NDArray[np.int64], names: pa.Array) -> pa.Array:
    """The addresses of files that a list names by bare name: they lie in its own directory."""
    directories = pa.array([canonical(row["uri"]).rpartition("/")[0] + "/" for row in rows], pa.string())
    return pc.binary_join_element_wise(directories.take(pa.array(owner)), names, "")


def _flattened(lists: pa.ChunkedArray) -> tuple[pa.Array, NDArray[np.int64]]:
    """The members of a column of lists, and the row that each came from."""
    whole = lists.combine_chunks()
    return pc.list_flatten(whole).cast(pa.string()), pc.list_parent_indices(whole).to_numpy().astype(np.int64)


def unproven(why: str) -> UnprovenListError:
    return UnprovenListError(f"may have lost its end, and nobody says how much it should name: {why}")


def _check_totals(rows: list[Row], found: list[pa.Table], errors: Errors, doubts: Mapping[int, str]) -> None:
    """A list cut between two blocks looks healthy; its snapshot's own totals show that manifests are gone.

    Where the snapshot has no totals, nor the length of its list, a list must end as its writer would end it.
    """
    data, deletes = np.zeros(len(rows)), np.zeros(len(rows))
    unknown = np.zeros(len(rows))
    for table in found:
        owner = table["owner"].to_numpy()
        for index in set(owner[pc.is_null(table["path"]).to_numpy()]) - errors.keys():
            errors[index] = UnknownAddressError("names a manifest by no address that is known")
        counts = pc.fill_null(table["live"], 0).to_numpy()
        is_data = table["content"].to_numpy() == 0
        data += np.bincount(owner, weights=counts * is_data, minlength=len(rows))
        deletes += np.bincount(owner, weights=counts * ~is_data, minlength=len(rows))
        unknown += np.bincount(owner, weights=pc.is_null(table["live"]).to_numpy(), minlength=len(rows))
    for index, row in enumerate(rows):
        for count, expected in ((data[index], row["data_files"]), (deletes[index], row["delete_files"])):
            if expected is not None and not unknown[index] and count < expected and index not in errors:
                errors[index] = IncompleteManifestError(
                    f"names {count:.0f} files where its snapshot's summary says {expected}"
                )
        told = row["data_files"] is not None and row["delete_files"] is not None and not unknown[index]
        if index in doubts and not told and row["length"] is None and index not in errors:
            errors[index] = unproven(doubts[index])


def _named_files(rows: list[Row], reader: Reader, part: Part) -> pa.Table:
    """Every file that an entry names and that counts, and the files that belong to it.

    Where a format keeps what entries delete, the file of such an entry is still needed by the snapshots before it; that
    they are gone is for expiry to find out.
    """
    table, owner = part.table, part.owner
    deleted = pc.fill_null(_column(table, "deleted", pa.bool_()), False)
    if not reader.keeps_deleted:
        alive = pc.invert(deleted)
        table, deleted = table.filter(alive), deleted.filter(alive)
        owner = owner[alive.to_numpy(zero_copy_only=False)]
    mark = pc.if_else(deleted, c.MARK_LIVE | c.MARK_DELETED, c.MARK_LIVE).cast(pa.int32())
    kinds = _kinds(rows, table, owner)
    sizes = _column(table, c.SIZE, pa.int64()) if c.SIZE in table.column_names else None
    keys = _keys(rows, _column(table, "path", pa.string()), owner, reader)
    found = [_marked(rows, keys, kinds, owner, mark, sizes)]
    for keys, places, of in _beside_entries(rows, table, owner, kinds, reader):
        at = pa.array(places)
        more = _marked(rows, keys, of.take(at), owner[places], mark.take(at))
        # They count for nothing: the list recorded the number of entries, not of files.
        found.append(more.append_column("beside", pa.repeat(True, len(keys))))
    return pa.concat_tables(found, promote_options="default")


def _beside_entries(
    rows: list[Row], table: pa.Table, owner: NDArray[np.int64], kinds: pa.Array, reader: Reader
) -> Iterator[tuple[pa.Array, NDArray[np.int64], pa.Array]]:
    """What entries name beside the names of their files: keys, the entry of each, and the entries' kinds."""
    extra, of_entry = pa.array([], pa.string()), np.empty(0, np.int64)
    if "extra" in table.column_names:
        extra, of_entry = _flattened(table["extra"])
        yield _keys(rows, extra, owner[of_entry], reader), of_entry, kinds
    if "external" in table.column_names:
        # By address beside by name. Soft: a file that is missing would be missing twice.
        addresses, soft = _column(table, "external", pa.string()), pc.bit_wise_or(kinds, pa.scalar(SOFT, pa.int32()))
        outside = pc.is_valid(addresses).to_numpy(zero_copy_only=False)
        yield canonical_column(addresses.drop_null()), np.flatnonzero(outside), soft
        mine = outside[of_entry]
        above = directories(addresses.take(pa.array(of_entry[mine])))
        names = pc.binary_join_element_wise(above, extra.filter(pa.array(mine)), "/")
        yield canonical_column(names), of_entry[mine], soft


def _keys(rows: list[Row], names: pa.Array, owner: NDArray[np.int64], reader: Reader) -> pa.Array:
    """What files are compared by: their addresses, or their bare names below their table's home."""
    if not reader.by_name:
        return canonical_column(names)
    return pc.binary_join_element_wise(_take(rows, c.HOME, pa.string(), owner), names, "")


def _kinds(rows: list[Row], table: pa.Table, owner: NDArray[np.int64]) -> pa.Array:
    is_data = pc.equal(pc.fill_null(_column(table, "content", pa.int32()), 0), 0)
    kinds = pc.if_else(is_data, KIND_CODES[Kind.DATA], KIND_CODES[Kind.DELETE]).cast(pa.int32())
    index = [row["content"] == c.CONTENT_INDEX for row in rows]
    if not any(index):
        return kinds
    return pc.if_else(pa.array(index).take(pa.array(owner)), KIND_CODES[Kind.INDEX], kinds).cast(pa.int32())


def _manifests_themselves(rows: list[Row], errors: Errors) -> pa.Table:
    whole = [(index, row) for index, row in enumerate(rows) if index not in errors]
    keys = pa.array([match_key(row["path"], row[c.HOME]) for _, row in whole], pa.string())
    kinds = pa.repeat(pa.scalar(KIND_CODES[Kind.MANIFEST], pa.int32()), len(whole))
    return _marked(rows, keys, kinds, np.array([index for index, _ in whole], np.int64))


def _sidecars(rows: list[Row]) -> pa.Table:
    """Files beside manifests, which are kept with them and never opened."""
    return _manifests_themselves(rows, {})


def _marked(
    rows: list[Row],
    keys: pa.Array,
    kinds: pa.Array,
    owner: NDArray[np.int64],
    mark: pa.Array | None = None,
    sizes: pa.Array | None = None,
) -> pa.Table:
    return pa.table(
        {
            c.TABLE: _take(rows, c.TABLE, pa.int32(), owner),
            c.KEY: keys,
            c.KIND: kinds,
            c.MARK: pa.repeat(pa.scalar(c.MARK_LIVE, pa.int32()), len(keys)) if mark is None else mark,
            c.SIZE: pa.nulls(len(keys), pa.int64()) if sizes is None else sizes,
            "owner": pa.array(owner),
        }
    )


def _check_counts(rows: list[Row], counts: NDArray[np.int64], live: list[pa.Table], errors: Errors) -> None:
    """Every manifest must hold as many entries, and as many live ones, as its list recorded."""
    alive = np.zeros(len(rows), np.int64)
    nameless = np.zeros(len(rows), np.int64)
    for table in live:
        owner = table["owner"].to_numpy()
        entries = owner[pc.is_null(table["beside"]).to_numpy()] if "beside" in table.column_names else owner
        alive += np.bincount(entries, minlength=len(rows))
        nameless += np.bincount(owner[pc.is_null(table[c.KEY]).to_numpy()], minlength=len(rows))
    for index, row in enumerate(rows):
        if index in errors:
            continue
        for count, expected, what in (
            (counts[index], row["rows"], "entries"),
            (alive[index], row["live"], "live entries"),
        ):
            if expected is not None and count != expected:
                errors[index] = IncompleteManifestError(f"has {count} {what} where its list says {expected}")
        if nameless[index]:
            errors[index] = UnknownAddressError("names a file by no address that is known")


def _without(errors: Errors, table: pa.Table, owner: NDArray[np.int64]) -> pa.Table:
    if not errors:
        return table
    return table.filter(pa.array(~np.isin(owner, list(errors))))


def _notes(rows: list[Row], errors: Errors, column: str) -> list[tuple[int, str]]:
    """A note per damaged file. A soft one that is simply gone protects nothing any more: no note."""
    return [
        (rows[index][c.TABLE], error_note(rows[index][c.TABLE], error, rows[index][column]))
        for index, error in errors.items()
        if not (rows[index]["soft"] and isinstance(error, FileNotFoundError))
    ]


def _take(rows: list[Row], column: str, kind: pa.DataType, owner: NDArray[np.int64]) -> pa.Array:
    return pa.array([row[column] for row in rows], kind).take(pa.array(owner))


def _column(table: pa.Table, name: str, kind: pa.DataType) -> pa.Array:
    array = pa.chunked_array(table[name]).cast(kind).combine_chunks()
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array


def _noted_manifests(notes: list[tuple[int, str]], schema: pa.Schema) -> pa.Table:
    blank = {name: None for name in schema.names}
    rows = [blank | {c.TABLE: table_id, "path": note, "soft": False, "format": ""} for table_id, note in notes]
    return pa.Table.from_pylist(rows, schema=schema)


def _noted_marks(notes: list[tuple[int, str]]) -> pa.Table:
    other = KIND_CODES[Kind.OTHER]
    rows = [{c.TABLE: table_id, c.KEY: note, c.KIND: other, c.MARK: c.MARK_NOTE} for table_id, note in notes]
    return pa.Table.from_pylist(rows, schema=c.MARKS)


def _together(tables: list[pa.Table]) -> Batches:
    """One batch for many small tables: each batch that crosses to the JVM costs more than its rows."""
    yield from pa.concat_tables(tables).combine_chunks().to_batches()
