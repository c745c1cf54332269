"""Real Paimon tables on local disk, written by pypaimon, and files that do something while they are read."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pypaimon import CatalogFactory, Schema

from lakewarden.model.ports import Directory, Stat
from lakewarden.storage.stores import Stores

COLUMNS = pa.schema([("id", pa.int64()), ("dt", pa.string()), ("v", pa.string())])


@dataclass(frozen=True)
class Lake:
    """A warehouse of a filesystem catalog."""

    path: Path

    @property
    def catalog(self) -> Any:
        return CatalogFactory.create({"warehouse": f"file://{self.path}"})

    def create(
        self,
        name: str,
        options: Mapping[str, str] | None = None,
        primary_keys: Sequence[str] = (),
        database: str = "db",
    ) -> LakeTable:
        catalog = self.catalog
        catalog.create_database(database, True)
        schema = Schema.from_pyarrow_schema(
            COLUMNS,
            partition_keys=["dt"],
            primary_keys=list(primary_keys) or None,
            options={"bucket": "-1", **(options or {})},
        )
        catalog.create_table(f"{database}.{name}", schema, False)
        return LakeTable(self, f"{database}.{name}", self.path / f"{database}.db" / name)


@dataclass(frozen=True)
class LakeTable:
    """One table and the directory it lies in."""

    lake: Lake
    name: str
    path: Path

    @property
    def location(self) -> str:
        return f"file://{self.path}/"

    @property
    def opened(self) -> Any:
        return self.lake.catalog.get_table(self.name)

    def write(self, *days: str, branch: str | None = None) -> None:
        """One commit a day, each of one row."""
        for day in days:
            table = self.lake.catalog.get_table(f"{self.name}$branch_{branch}" if branch else self.name)
            builder = table.new_batch_write_builder()
            writer, commit = builder.new_write(), builder.new_commit()
            writer.write_arrow(pa.Table.from_pylist([{"id": 1, "dt": day, "v": "x"}], schema=COLUMNS))
            commit.commit(writer.prepare_commit())
            writer.close()
            commit.close()

    def json(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.path / name).read_text())
        return found

    def change(self, name: str, **fields: object) -> None:
        """Rewrite some fields of a metadata file."""
        (self.path / name).write_text(json.dumps(self.json(name) | fields))

    def put(self, name: str, text: str | bytes = "x") -> None:
        target = self.path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(text if isinstance(text, bytes) else text.encode())

    def set_options(self, **options: str) -> None:
        """Options as a later version of the schema has them; dashes for double underscores, dots for single ones."""
        spelled = {key.replace("__", "-").replace("_", "."): value for key, value in options.items()}
        schema = self.json("schema/schema-0")
        schema |= {"id": 1, "options": schema["options"] | spelled}
        self.put("schema/schema-1", json.dumps(schema))

    def files(self) -> set[str]:
        return {str(path.relative_to(self.path)) for path in self.path.rglob("*") if path.is_file()}


def write_outside(table: LakeTable, directory: Path, day: str = "2024-02-01") -> Path:
    """A commit whose data file lies in another directory, by an option of this writer alone; the file."""
    options = {
        "data-file.external-paths": f"file://{directory}",
        "data-file.external-paths.strategy": "round-robin",
    }
    before = set(directory.rglob("data-*"))
    builder = table.opened.copy(options).new_batch_write_builder()
    writer, commit = builder.new_write(), builder.new_commit()
    writer.write_arrow(pa.Table.from_pylist([{"id": 1, "dt": day, "v": "x"}], schema=COLUMNS))
    commit.commit(writer.prepare_commit())
    writer.close()
    commit.close()
    (written,) = set(directory.rglob("data-*")) - before
    return written


class Meddled:
    """The stores, with something done before or after each of their answers."""

    def __init__(
        self,
        stores: Stores,
        before_read: Callable[[int], None] = lambda _: None,
        before_list: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._stores = stores
        self._before_read = before_read
        self._before_list = before_list
        self.reads = 0
        self.lists = 0

    def get(self, uri: str) -> bytes:
        return self._stores.get(uri)

    def get_many(self, uris: Sequence[str]) -> list[bytes | Exception]:
        self._before_read(self.reads)
        self.reads += 1
        return self._stores.get_many(uris)

    def head(self, uri: str) -> Stat | None:
        return self._stores.head(uri)

    def entries(self, prefix: str) -> Directory:
        self._before_list(self.lists)
        self.lists += 1
        return self._stores.entries(prefix)

    def places(self, prefix: str) -> Directory:
        self._before_list(self.lists)
        self.lists += 1
        return self._stores.places(prefix)

    def create(self, uri: str, data: bytes) -> bool:
        return self._stores.create(uri, data)

    def put(self, uri: str, data: bytes) -> None:
        self._stores.put(uri, data)


def upload(table: LakeTable, stores: Stores, location: str, names: Iterable[str] | None = None) -> None:
    """The table's files under another address."""
    for name in names or table.files():
        stores.put(location + name, (table.path / name).read_bytes())
