"""Parquet files by many hands, and the order to make fewer of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from lakewarden.formats.iceberg.compaction.compactor import _DataFiles
from lakewarden.formats.iceberg.data.columns import arrow_schema, lineage_columns
from lakewarden.formats.iceberg.data.order import Input, Order, Rewritten, Told
from lakewarden.formats.iceberg.data.rewrite import rewrite
from lakewarden.storage.stores import Stores
from tests.support.lakes import local_path

# Any property of the encoding makes a new encoding the only way.
ENCODED_ONLY = {"write.parquet.page-size-bytes": "1048576"}
TOLD = ("rows", "value_counts", "null_counts", "nan_counts", "lower", "upper")


def schema_of(*columns: tuple[str, Any]) -> dict[str, Any]:
    """A schema with these columns; nested types bring ids of their own, from 100 on."""
    return {
        "type": "struct",
        "fields": [
            {"id": n, "name": name, "required": False, "type": kind} for n, (name, kind) in enumerate(columns, 1)
        ],
    }


@dataclass
class Group:
    """A group of files in a directory of its own."""

    base: Path
    columns: Mapping[str, Any]
    version: int = 2
    properties: dict[str, str] = field(default_factory=dict)
    inputs: list[Input] = field(default_factory=list)
    target: int = 1 << 30
    sizes: tuple[int, int] = (0, 1 << 30)

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([*arrow_schema(self.columns), *(lineage_columns() if self.version > 2 else ())])

    def write(self, rows: Sequence[Mapping[str, Any]] | pa.Table, **how: Any) -> Path:
        """One more file, as Iceberg's writers write it unless it is said otherwise."""
        self.base.mkdir(parents=True, exist_ok=True)
        table = rows if isinstance(rows, pa.Table) else pa.Table.from_pylist(list(rows), self.schema)
        path = self.base / f"in-{len(self.inputs)}.parquet"
        usual = {"compression": "zstd", "store_schema": False, "store_decimal_as_integer": True}
        pq.write_table(table, path, **{**usual, **how})
        return self.add(path, table.num_rows)

    def add(self, path: Path, rows: int) -> Path:
        self.inputs.append(Input(f"file://{path}", path.stat().st_size, rows, 1))
        return path

    def order(self, **more: Any) -> Order:
        made = Order(
            "g", self.version, self.columns, tuple(self.inputs), f"file://{self.base}/out", self.target,
            properties=self.properties, sizes=self.sizes,
        )  # fmt: skip
        return replace(made, **more)

    def rewritten(self, **more: Any) -> Rewritten:
        return rewrite(self.order(**more), _DataFiles(Stores({})), self.base)

    def encoded(self) -> Rewritten:
        """By the other way."""
        return self.rewritten(properties={**self.properties, **ENCODED_ONLY}, prefix=f"file://{self.base}/encoded")

    def told_by_manifests(self) -> None:
        """Let the inputs' manifests say of them what their rows say."""
        for place, one in enumerate(self.inputs):
            alone = replace(self, inputs=[one]).encoded()
            found = alone.files[0] if alone.files else None
            said = Told(found.lower, found.upper, found.null_counts) if found is not None else Told({}, {}, {})
            self.inputs[place] = replace(one, told=said)

    def rows(self) -> list[Any]:
        return [repr(row) for one in self.inputs for row in pq.read_table(local_path(one.path)).to_pylist()]


def rows_in(result: Rewritten) -> list[Any]:
    return [repr(row) for file in result.files for row in pq.read_table(local_path(file.path)).to_pylist()]


def told(result: Rewritten) -> list[Any]:
    """What the manifest will say of rows and values."""
    return [{name: getattr(file, name) for name in TOLD} for file in result.files]
