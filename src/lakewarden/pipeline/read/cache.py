"""Verified manifests, remembered across runs: they never change, so a quiet fleet is not read twice.

A cache file is written by the task that proved its rows, and indexed by the ledger with size and digest.
Pages carry checksums that Spark verifies; a file whose size is not the indexed one is not used.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from lakewarden.pipeline import columns as c
from lakewarden.storage.stores import Stores

LIST_CACHE = pa.schema(
    [
        ("uri", pa.string()),
        ("path", pa.string()),
        ("length", pa.int64()),
        ("rows", pa.int64()),
        ("live", pa.int64()),
        ("content", pa.int32()),
    ]
)
MANIFEST_CACHE = pa.schema([("path", pa.string()), ("length", pa.int64()), (c.KEY, pa.string()), (c.KIND, pa.int32())])
CACHE_NOTE = "cache"

Row = dict[str, Any]


@dataclass(frozen=True)
class CacheWriter:
    """Where a task leaves the rows it proved. Each call answers with a note that names the file."""

    stores: Stores
    location: str

    def lists(self, rows: list[Row], manifests: list[pa.Table]) -> str | None:
        """Remember lists. One that names no manifest has no row, and is cheap to read again."""
        uris = pa.array([row["uri"] for row in rows], pa.string())
        tables = [
            table.drop_columns(["owner"]).append_column("uri", uris.take(table["owner"].combine_chunks()))
            for table in manifests
        ]
        return self._write("list", tables, LIST_CACHE)

    def manifests(self, rows: list[Row], marks: list[pa.Table]) -> str | None:
        """Remember manifests: their live files and themselves, so that none is without a row."""
        paths = pa.array([row["path"] for row in rows], pa.string())
        lengths = pa.array([row["length"] for row in rows], pa.int64())
        tables = []
        for table in marks:
            owner = table["owner"].combine_chunks()
            tables.append(table.append_column("path", paths.take(owner)).append_column("length", lengths.take(owner)))
        return self._write("manifest", tables, MANIFEST_CACHE)

    def _write(self, kind: str, tables: list[pa.Table], schema: pa.Schema) -> str | None:
        rows = sum(table.num_rows for table in tables)
        if not rows:
            return None
        table = pa.concat_tables([t.select(schema.names).cast(schema) for t in tables]).combine_chunks()
        sink = pa.BufferOutputStream()
        pq.write_table(table, sink, compression="zstd", write_page_checksum=True)
        data = sink.getvalue().to_pybytes()
        uri = f"{self.location}{kind}-{uuid.uuid4().hex}.parquet"
        self.stores.put(uri, data)
        digest = hashlib.sha256(data).hexdigest()
        entry = {"kind": kind, "uri": uri, "sha256": digest, "rows": rows, "bytes": len(data)}
        return "!" + json.dumps({CACHE_NOTE: entry})
