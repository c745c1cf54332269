"""Paimon tables rewritten without Spark: one group of all files of a bucket, read by pypaimon before and after."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pypaimon import CatalogFactory, Schema

from lakewarden.formats.paimon.compaction.compactor import PaimonCompactor
from lakewarden.formats.paimon.compaction.head import read_head
from lakewarden.formats.paimon.compaction.layout import Layout
from lakewarden.formats.paimon.manifests.files import manifests_of, opened
from lakewarden.formats.paimon.metadata.known import KnownTables
from lakewarden.formats.paimon.metadata.state import table_uuid
from lakewarden.formats.paimon.metadata.table import PaimonTable
from lakewarden.model.compaction import GroupFiles, GroupLease, Landed, Prepared
from lakewarden.model.table import Pointer
from lakewarden.storage.stores import Stores

NOW_MS = 1_795_000_000_000
TARGET = 256 << 20


@dataclass
class Bench:
    """One warehouse, one table, and the compactor on it."""

    base: Path
    name: str = "db.t"

    def __post_init__(self) -> None:
        self.stores = Stores({})
        self.known = KnownTables(self.stores)
        self.compactor = PaimonCompactor(self.stores, self.known)
        # The new files of the last commit of which it was certain that nothing names them.
        self.unused: set[str] = set()

    @property
    def catalog(self) -> Any:
        return CatalogFactory.create({"warehouse": f"file://{self.base}"})

    @property
    def location(self) -> str:
        database, table = self.name.split(".")
        return f"file://{self.base}/{database}.db/{table}/"

    @property
    def table(self) -> PaimonTable:
        return self.known.now(self.location)

    def named(self) -> set[str]:
        """The names of the files that the table has."""
        return {name for group in self.groups() for name in group.paths}

    def create(
        self, columns: pa.Schema, options: Mapping[str, str] | None = None, partitions: Sequence[str] = ()
    ) -> None:
        catalog = self.catalog
        catalog.create_database("db", True)
        schema = Schema.from_pyarrow_schema(
            columns, partition_keys=list(partitions), options={"bucket": "-1", **(options or {})}
        )
        catalog.create_table(self.name, schema, False)

    def write(self, rows: pa.Table) -> None:
        builder = self.catalog.get_table(self.name).new_batch_write_builder()
        writer, commit = builder.new_write(), builder.new_commit()
        writer.write_arrow(rows)
        commit.commit(writer.prepare_commit())
        writer.close()
        commit.close()

    def rows(self, columns: Sequence[str] = ()) -> list[str]:
        """What pypaimon reads, in one order."""
        builder = self.catalog.get_table(self.name).new_read_builder()
        if columns:
            builder = builder.with_projection(list(columns))
        found = builder.new_read().to_arrow(builder.new_scan().plan().splits())
        return sorted(repr(row) for row in found.to_pylist())

    def entries(self) -> list[dict[str, Any]]:
        """The live entries of the latest snapshot."""
        table = self.table
        latest = table.main.latest
        assert latest is not None
        manifests = manifests_of(table, latest, self.stores)
        assert manifests is not None
        records = [record for _, file in opened(table, manifests, self.stores) for record in file.records]
        gone = {record["_FILE"]["_FILE_NAME"] for record in records if record["_KIND"] == 1}
        return [record for record in records if record["_FILE"]["_FILE_NAME"] not in gone]

    def groups(self) -> list[GroupFiles]:
        """One group for each bucket."""
        found: dict[tuple[bytes, int], list[str]] = {}
        for record in self.entries():
            found.setdefault((record["_PARTITION"], record["_BUCKET"]), []).append(record["_FILE"]["_FILE_NAME"])
        return [GroupFiles(f"g{n}", tuple(sorted(names))) for n, names in enumerate(found.values())]

    @property
    def pointer(self) -> Pointer:
        return Pointer(f"lake.{self.name}", f"{self.location}#")

    def prepared(self, groups: Sequence[GroupFiles] | None = None, run: str = "r1", target: int = TARGET) -> Prepared:
        chosen = self.groups() if groups is None else groups
        return self.compactor.prepare(self.pointer, table_uuid(self.table), chosen, target, run)

    def answers(self, prepared: Prepared) -> dict[str, str]:
        return {name: self.compactor.worker.rewrite(order, self.stores) for name, order in prepared.orders.items()}

    def commit(
        self,
        prepared: Prepared,
        answers: Mapping[str, str],
        run: str = "r1",
        epochs: Iterable[int] = (),
        may_commit: Callable[[], None] = lambda: None,
    ) -> Landed:
        given = list(epochs) or [1] * len(answers)
        leases = {name: GroupLease(f"k/{name}", epoch) for name, epoch in zip(answers, given, strict=True)}
        said = {"lakewarden.run": run, "lakewarden.job": "compaction"}
        landed = self.compactor.commit(self.pointer, prepared, answers, leases, said, NOW_MS, may_commit)
        self.unused = set(landed.unused.uris) - set(landed.unused.named() if landed.unused.uris else ())
        if landed.failed is not None:
            raise landed.failed
        return landed

    def compact(self, meanwhile: Callable[[], object] = lambda: None, target: int = TARGET) -> Landed:
        prepared = self.prepared(target=target)
        answers = self.answers(prepared)
        meanwhile()
        return self.commit(prepared, answers)

    def vectors(self) -> set[str]:
        """The data files that have a deletion vector."""
        table = self.table
        return set(read_head(table, Layout.of(table), [], self.stores).vectors)

    def change_schema(self, *changes: Any) -> None:
        self.catalog.alter_table(self.name, list(changes), False)

    def overwrite(self, rows: pa.Table, partition: Mapping[str, Any] | None = None) -> None:
        builder = self.catalog.get_table(self.name).new_batch_write_builder().overwrite(dict(partition or {}))
        writer, commit = builder.new_write(), builder.new_commit()
        writer.write_arrow(rows)
        commit.commit(writer.prepare_commit())
        writer.close()
        commit.close()
