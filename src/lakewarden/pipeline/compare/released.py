"""Files that holders of the side before need, each once a table: few of them looked through here, many in Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from lakewarden.pipeline import columns as c
from lakewarden.pipeline.compare.marks import manifest_lengths, marks_here
from lakewarden.pipeline.compare.needs import Named, NamesKept
from lakewarden.pipeline.read.cache import KEY_ROWS, kept_table, read_whole
from lakewarden.pipeline.read.names import SOFT
from lakewarden.storage.stores import Stores

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# One row per file and table: whether a holder of the live side needs the file too, how large its recorded copy is, and
# how long a manifest was when it was proven whole. One that is known from the cache may have been cut since.
RELEASED = pa.schema(
    [
        (c.TABLE, pa.int32()),
        (c.KEY, pa.string()),
        (c.KIND, pa.int32()),
        ("live", pa.bool_()),
        ("copy", pa.int64()),
        ("length", pa.int64()),
    ]
)
COPIES = pa.schema([(c.TABLE, pa.int32()), (c.KEY, pa.string()), ("copy", pa.int64())])

Step = Callable[[Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]]


class Released(Protocol):
    """What is known of the files, wherever it lies."""

    def each(self, step: Step, schema: pa.Schema, copies: pa.Table, *, in_doubt: bool) -> pa.Table:
        """What `step` makes of RELEASED. `copies` are COPIES; `in_doubt`: some live side is unknown, and may need any file."""
        ...

    def manifests_naming(self, keys: Sequence[str]) -> list[str]:
        """The addresses of the manifests that name any of these files."""
        ...


class InSpark:
    def __init__(self, spark: SparkSession, named: Named, names: NamesKept, stores: Stores) -> None:
        self._spark, self._named, self._names, self._stores = spark, named, names, stores

    def each(self, step: Step, schema: pa.Schema, copies: pa.Table, *, in_doubt: bool) -> pa.Table:
        from lakewarden.pipeline.compare import by_join
        from lakewarden.pipeline.read.frames import in_tasks

        marked = by_join.marks(self._spark, self._named, self._names, self._stores)
        found = by_join.released(marked, copies, manifest_lengths(self._named), in_doubt=in_doubt)
        return in_tasks(found.select(*RELEASED.names), step, schema).toArrow().cast(schema)

    def manifests_naming(self, keys: Sequence[str]) -> list[str]:
        from lakewarden.pipeline.compare import by_join

        return by_join.manifests_naming(self._spark, self._names, keys, self._stores)


class Here:
    def __init__(self, named: Named, names: NamesKept, stores: Stores) -> None:
        self._named, self._names = named, names
        rows = read_whole(stores)(kept_table(names.files).to_batches())
        # A file of the cache has the names of other tables' manifests too.
        mine = (batch.filter(pc.is_in(batch["path"], named.once["path"].combine_chunks())) for batch in rows)
        self._rows = pa.Table.from_batches(mine, schema=KEY_ROWS)

    def each(self, step: Step, schema: pa.Schema, copies: pa.Table, *, in_doubt: bool) -> pa.Table:
        marks = marks_here(self._named, self._names, self._rows)
        before = marks.filter(pc.equal(marks[c.MARK], c.MARK_RELEASED))
        kinds = pa.array(before[c.KIND].to_numpy() % SOFT, pa.int32())
        before = before.select([c.TABLE, c.KEY]).append_column(c.KIND, kinds)
        live = marks.filter(pc.equal(marks[c.MARK], c.MARK_LIVE))[c.KEY]
        files = before.group_by([c.TABLE, c.KEY]).aggregate([(c.KIND, "min")]).rename_columns(RELEASED.names[:3])
        files = files.append_column("live", pc.or_(pc.is_in(files[c.KEY], live), in_doubt))
        files = files.join(copies, [c.TABLE, c.KEY]).join(manifest_lengths(self._named), c.KEY)
        rows = files.select(RELEASED.names).cast(RELEASED).combine_chunks()
        return pa.Table.from_batches(step(rows.to_batches()), schema=schema)

    def manifests_naming(self, keys: Sequence[str]) -> list[str]:
        found = self._rows.filter(pc.is_in(self._rows[c.KEY], pa.array(keys, pa.string())))["path"]
        return [str(path) for path in pc.unique(found).to_pylist()]
