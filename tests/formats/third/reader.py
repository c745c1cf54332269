"""How Shelf's lists and manifests become rows: JSON, whole or not at all."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from lakewarden.model.errors import IncompleteManifestError
from lakewarden.model.ports import Blobs, FileNames, Part, ReadAvro, Rows
from lakewarden.model.verdict import Kind

NAMES = FileNames(
    written=r"^(lists|manifests)/[^/]+\.json$|^data/[^/]+\.bin$",
    hidden=None,
    reused=r"^state-\d+\.json$",
    kinds=(
        (Kind.METADATA, r"^state-"),
        (Kind.MANIFEST_LIST, r"^lists/"),
        (Kind.MANIFEST, r"^manifests/"),
        (Kind.DATA, r"\.bin$"),
    ),
    foreign={"iceberg": r"(^|/)metadata/[^/]*\.metadata\.json$"},
)
MANIFESTS = pa.schema(
    [("path", pa.string()), ("length", pa.int64()), ("rows", pa.int64()), ("live", pa.int64()), ("content", pa.int32())]
)
ENTRIES = pa.schema([("path", pa.string()), ("deleted", pa.bool_()), ("content", pa.int32())])

Record = dict[str, Any]


class ShelfReader:
    format = "shelf"
    names = NAMES
    by_name = False
    keeps_deleted = False

    def recogniser(self, *_: object) -> Callable[..., Record | None]:
        return _nothing

    def manifests(self, blobs: Blobs, avro: ReadAvro) -> Rows:
        return _rows(blobs, _manifests, MANIFESTS)

    def entries(self, blobs: Blobs, avro: ReadAvro) -> Rows:
        return _rows(blobs, _entries, ENTRIES)

    def partitions(self, blobs: Blobs, avro: ReadAvro) -> Rows:
        raise AssertionError("Shelf has no partitions, and no partition_expirer")


def _nothing(*_: object, **__: object) -> None:
    return None


def _manifests(document: Record) -> list[Record]:
    return [
        {"path": m["path"], "length": m["length"], "rows": m["files"], "live": m["files"], "content": 0}
        for m in document["manifests"]
    ]


def _entries(document: Record) -> list[Record]:
    return [{"path": path, "deleted": False, "content": 0} for path in document["files"]]


def _rows(blobs: Blobs, parse: Callable[[Record], list[Record]], schema: pa.Schema) -> Rows:
    rows: list[Record] = []
    owner: list[int] = []
    counts = np.zeros(len(blobs), np.int64)
    errors: dict[int, Exception] = {}
    for index, blob in enumerate(blobs):
        if isinstance(blob, Exception):
            errors[index] = blob
            continue
        try:
            found = parse(json.loads(blob))
        except (ValueError, KeyError, TypeError) as error:
            errors[index] = IncompleteManifestError(f"is no whole file of Shelf ({error})")
            continue
        rows += found
        owner += [index] * len(found)
        counts[index] = len(found)
    return Rows([Part(pa.Table.from_pylist(rows, schema=schema), np.array(owner, np.int64))], counts, errors)
