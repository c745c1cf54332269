"""Files that stand for a LIST call or hold rows of ours, read through the stores: Parquet and CSV."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as csv
import pyarrow.parquet as pq

from lakewarden.model.errors import LakewardenError
from lakewarden.model.ports import Shard
from lakewarden.model.roots import Root
from lakewarden.pipeline import columns as c
from lakewarden.pipeline.read.names import canonical_column
from lakewarden.pipeline.read.places import NO_ROOT, Places
from lakewarden.storage.listing import list_shard
from lakewarden.storage.store import UNLISTABLE
from lakewarden.storage.stores import Stores

Step = Callable[[Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]]

# Names under which inventories call the three columns; the first that is there is taken.
NAMES = {
    c.KEY: ("path", "key", "file_path", "uri"),
    c.SIZE: ("size", "length", "bytes"),
    c.MODIFIED: ("modified", "last_modified", "modification_time", "last_modified_date"),
}


def inventories_table(inventories: Sequence[tuple[str, Sequence[Root]]]) -> pa.Table:
    """The files of inventories by their place, one row each, as `read_inventory` takes them."""
    places = pa.array(range(len(inventories)), pa.int32())
    return pa.table({"uri": pa.array([uri for uri, _ in inventories], pa.string()), "place": places})


def read_parquet(stores: Stores, schema: pa.Schema) -> Step:
    """Addresses in (`uri`), rows of the Parquet files out."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for uri in batch.column("uri").to_pylist():
                file = pq.ParquetFile(pa.BufferReader(stores.get(uri)), page_checksum_verification=True)
                for rows in file.iter_batches(columns=schema.names):
                    yield from pa.Table.from_batches([rows]).cast(schema).to_batches()

    return run


def read_inventory(stores: Stores, inventories: Sequence[tuple[str, Sequence[Root]]]) -> Step:
    """Rows of `inventories_table` in, LISTED out.

    Only names under an inventory's roots are taken, compared with their trailing slash: an inventory of a whole bucket
    also names the files of everything else in it. An inventory that cannot be read makes its roots unknown.
    """
    # The files of one inventory stand for the same roots, which are looked through once.
    roots = {id(several): Places.of(several) for _, several in inventories}
    places = [roots[id(several)] for _, several in inventories]

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for uri, place in zip(batch["uri"].to_pylist(), batch["place"].to_pylist(), strict=True):
                try:
                    for rows in _rows(stores, uri):
                        yield _listed(rows, places[place])
                except Exception as error:
                    reason = f"inventory {uri}: {type(error).__name__}: {error}"
                    for prefix, root_id in zip(places[place].prefixes, places[place].ids, strict=True):
                        yield _unreadable(prefix, root_id, reason)

    return run


def inventory_files(stores: Stores, uri: str) -> list[str]:
    """The files of an inventory: itself, or the Parquet and CSV files of the directory, so that several tasks share them.

    A place that cannot be read comes back as it is; the task that opens it says why.
    """
    place = uri.rstrip("/")
    try:
        if stores.head(place) is not None:
            return [place]
    except (LakewardenError, OSError):
        return [place]
    names = sorted(key for batch in list_shard(stores, Shard(0, f"{place}/")) for key in batch[c.KEY].to_pylist())
    return [name for name in names if name.endswith((".parquet", ".csv", ".csv.gz"))] or [place]


def _rows(stores: Stores, uri: str) -> Iterator[pa.RecordBatch]:
    data = pa.BufferReader(stores.get(uri))
    if uri.endswith((".csv", ".csv.gz")):
        stream = pa.CompressedInputStream(data, "gzip") if uri.endswith(".gz") else data
        yield from csv.open_csv(stream)
    else:
        yield from pq.ParquetFile(data, page_checksum_verification=True).iter_batches()


def _listed(rows: pa.RecordBatch, places: Places) -> pa.RecordBatch:
    keys = canonical_column(_named(rows, c.KEY).cast(pa.string()))
    roots = np.where(pc.is_valid(keys), places.roots_of(pc.fill_null(keys, "")), NO_ROOT)
    inside = pa.array(roots != NO_ROOT)
    count = int((roots != NO_ROOT).sum())
    return pa.record_batch(
        [
            pa.array(roots, pa.int32()).filter(inside),
            keys.filter(inside),
            _named(rows, c.SIZE).cast(pa.int64()).filter(inside),
            _instants(_named(rows, c.MODIFIED)).filter(inside),
            pa.nulls(count, pa.string()),
            pa.nulls(count, pa.string()),
        ],
        schema=c.LISTED,
    )


def _named(rows: pa.RecordBatch, column: str) -> pa.Array:
    for name in NAMES[column]:
        if name in rows.schema.names:
            return rows[name]
    raise ValueError(f"an inventory needs a column {NAMES[column][0]}; it has {', '.join(rows.schema.names)}")


def _instants(values: pa.Array) -> pa.Array:
    wanted = pa.timestamp("us", tz="UTC")
    if pa.types.is_timestamp(values.type) and values.type.tz is None:
        return pc.assume_timezone(values.cast(pa.timestamp("us")), "UTC")
    if pa.types.is_integer(values.type):
        return values.cast(pa.int64()).cast(pa.timestamp("ms")).cast(pa.timestamp("us")).cast(wanted)
    return values.cast(wanted)


def _unreadable(prefix: str, root_id: int, reason: str) -> pa.RecordBatch:
    row = {c.ROOT: root_id, c.KEY: prefix, c.FLAG: UNLISTABLE + reason[:300]}
    return pa.RecordBatch.from_pylist([row], schema=c.LISTED)
