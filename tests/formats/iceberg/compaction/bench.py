"""A table that PyIceberg makes, deletes of every kind that nobody else writes without Spark, and one compaction of it."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table

from lakewarden.formats.avro import write_avro
from lakewarden.formats.iceberg import open_format
from lakewarden.formats.iceberg.commit.new_snapshot import current_snapshot, start_removal
from lakewarden.formats.iceberg.commit.versions import SqlVersions
from lakewarden.formats.iceberg.compaction.head import content_of, live_files
from lakewarden.formats.iceberg.data.applicable import LiveFile
from lakewarden.formats.iceberg.data.columns import FIELD_ID
from lakewarden.formats.iceberg.data.order import Order
from lakewarden.formats.iceberg.manifests.files import (
    DATA,
    DELETES,
    manifest_of_version,
    read_list,
    read_manifest,
    set_counts,
)
from lakewarden.model.compaction import Compactor, GroupFiles, GroupLease, Landed, Prepared
from lakewarden.model.table import Pointer
from lakewarden.storage.stores import Stores
from tests.support.lakes import local_path

NAME, POINTER = "t.bench", Pointer("lake.t.bench", "")
EQUALITY, POSITION = 2, 1


@dataclass
class Bench:
    base: Path
    stores: Stores = field(default_factory=lambda: Stores({}))

    def __post_init__(self) -> None:
        properties = {"type": "sql", "uri": f"sqlite:///{self.base}/c.db", "warehouse": f"file://{self.base}/w"}
        self.catalog = SqlCatalog("lake", **properties)
        self.catalog.create_namespace("t")
        self.versions = SqlVersions(self.catalog, self.stores)
        found = open_format("lake", properties, self.stores, lambda *_: None).compactor
        assert found is not None
        self.compactor: Compactor = found

    def make(self, schema: Schema, spec: PartitionSpec | None = None, version: int = 2) -> Table:
        more = {"format-version": str(version)}
        return self.catalog.create_table(NAME, schema, partition_spec=spec or PartitionSpec(), properties=more)

    @property
    def table(self) -> Table:
        return self.catalog.load_table(NAME)

    @property
    def document(self) -> dict[str, Any]:
        return dict(self.versions.current(NAME).document)

    def change(self, how: Callable[[dict[str, Any]], None]) -> None:
        """The metadata as another writer would have left it."""
        version = self.versions.current(NAME)
        document = dict(version.document)
        how(document)
        self.versions._replace(NAME, version, document)

    def live(self, content: int = DATA) -> list[LiveFile]:
        document = self.document
        rows = read_list(self.stores, current_snapshot(document) or {}).records
        wanted = (row for row in rows if content_of(row) == content)
        return [one for row in wanted for one in live_files(self.stores, row, int(document["format-version"]))]

    def add_delete(
        self, columns: dict[tuple[str, int], pa.Array], like: LiveFile, content: int = EQUALITY, **more: Any
    ) -> str:
        """A file of deletes with these columns, by name and id, in the spec and partition of that data file."""
        fields = [pa.field(name, a.type, metadata={FIELD_ID: str(n).encode()}) for (name, n), a in columns.items()]
        rows = pa.table(list(columns.values()), schema=pa.schema(fields))
        path = f"{self.document['location']}/data/{uuid.uuid4()}-deletes.parquet"
        pq.write_table(rows, local_path(path), store_schema=False)
        if content == EQUALITY:
            more.setdefault("equality_ids", [number for _, number in columns])
        file = {
            **dict.fromkeys(like.file), "content": content, "file_path": path, "file_format": "PARQUET",
            "partition": like.file["partition"], "record_count": rows.num_rows,
            "file_size_in_bytes": local_path(path).stat().st_size, "block_size_in_bytes": 1, **more,
        }  # fmt: skip
        self._commit(file, like)
        return path

    def add_path(self, path: str, like: LiveFile) -> None:
        """A snapshot with a file that is there already, described like another one."""
        self._commit({**like.file, "file_path": path}, like)

    def _commit(self, file: dict[str, Any], like: LiveFile) -> None:
        version = self.versions.current(NAME)
        manifests = read_list(self.stores, current_snapshot(version.document) or {})
        unique = uuid.uuid4()
        making = start_removal(version.document, version.location, unique.int >> 65, str(unique))
        row = next(
            row
            for row in manifests.records
            if content_of(row) == DATA
            and like.path in {one.path for one in live_files(self.stores, row, making.version)}
        )
        model = manifest_of_version(read_manifest(self.stores, row), making.version)
        schema = _with_fields(model.schema, file)
        entry = {"status": 1, "snapshot_id": making.snapshot_id, "sequence_number": None, "file_sequence_number": None}
        header = {**model.header, "content": "deletes"}
        data = write_avro(replace(model, schema=schema, header=header, records=({**entry, "data_file": file},)))
        uri = f"{making.directory}/{unique}-m0.avro"
        assert self.stores.create(uri, data)
        new = {
            **row, "manifest_path": uri, "manifest_length": len(data), "content": DELETES, "partitions": None,
            "sequence_number": making.sequence, "min_sequence_number": making.sequence,
            "added_snapshot_id": making.snapshot_id,
        }  # fmt: skip
        none = dict.fromkeys(
            ("existing_files_count", "deleted_files_count", "existing_rows_count", "deleted_rows_count"), 0
        )
        set_counts(new, {"added_files_count": 1, "added_rows_count": file["record_count"], **none})
        kind = "equality" if file["content"] == EQUALITY else "position"
        making.summary.update({"added-delete-files": 1, f"added-{kind}-deletes": file["record_count"]})
        snapshot = making.snapshot(self.stores, version.document, manifests, [new, *manifests.records], 0, {})
        self.versions.add(NAME, version, snapshot)

    def prepare(self, *groups: Sequence[LiveFile], run: str = "run") -> Prepared:
        wanted = [GroupFiles(f"g{n}", tuple(one.path for one in some)) for n, some in enumerate(groups)]
        return self.compactor.prepare(POINTER, self.document["table-uuid"], wanted, 1 << 29, run)

    def rewrite(self, prepared: Prepared) -> dict[str, str]:
        worker = self.compactor.worker
        return {name: worker.rewrite(_measured(order), self.stores) for name, order in prepared.orders.items()}

    def commit(
        self,
        prepared: Prepared,
        answers: dict[str, str],
        run: str = "run",
        may_commit: Callable[[], None] = lambda: None,
    ) -> Landed:
        leases = {name: GroupLease(f"{run}/{name}", 1) for name in answers}
        now = self.document["last-updated-ms"]
        return self.compactor.commit(POINTER, prepared, answers, leases, {"lakewarden.run": run}, now, may_commit)

    def compact(self, *groups: Sequence[LiveFile], run: str = "run") -> Landed:
        prepared = self.prepare(*groups, run=run)
        return self.commit(prepared, self.rewrite(prepared), run)

    def rows(self) -> list[Any]:
        """As PyIceberg reads them, with each filter of the file's bounds applied."""
        return sorted((tuple(row.values()) for row in self.table.scan().to_arrow().to_pylist()), key=repr)


def _measured(order: str) -> str:
    """Tests put other files in the place of those that were committed: the lengths are told as they are then."""
    found = Order.loads(order)
    inputs = (replace(one, size=local_path(one.path).stat().st_size) for one in found.inputs)
    return replace(found, inputs=tuple(inputs)).dumps()


def _with_fields(schema: dict[str, Any], file: dict[str, Any]) -> dict[str, Any]:
    """The manifest's schema, with what files of deletes have and a data file's manifest may lack."""
    place = next(one for one in schema["fields"] if one["name"] == "data_file")
    names = {one["name"] for one in place["type"]["fields"]}
    numbers = {"type": "array", "items": "int", "element-id": 136}
    for name, number, kind in (("equality_ids", 135, numbers), ("referenced_data_file", 143, "string")):
        if name in file and name not in names:
            more = {"name": name, "field-id": number, "type": ["null", kind], "default": None}
            place["type"]["fields"].append(more)
    return schema
