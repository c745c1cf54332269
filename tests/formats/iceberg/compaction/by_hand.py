"""The rows of a table by a reader of our own that knows the specification and none of the code under test: every live data
file, less what positions and values delete of it ("Scan Planning"). PyIceberg reads no equality deletes.
"""

from __future__ import annotations

from typing import Any

import pyarrow.parquet as pq

from lakewarden.formats.iceberg.manifests.files import DELETES
from tests.formats.iceberg.compaction.bench import EQUALITY, POSITION, Bench
from tests.support.lakes import local_path


def rows_by_hand(bench: Bench) -> list[tuple[Any, ...]]:
    """Every row under the columns of today, in one order."""
    schema = bench.table.schema()
    unpartitioned = {spec_id for spec_id, spec in bench.table.specs().items() if spec.is_unpartitioned()}
    deletes = bench.live(DELETES)
    found = []
    for data in bench.live():
        rows = _by_id(data.path)
        reach = [
            one
            for one in deletes
            if (one.spec, one.file["partition"]) == (data.spec, data.file["partition"]) or one.spec in unpartitioned
        ]
        positions = {
            row[2147483545]
            for one in reach
            if one.file["content"] == POSITION and data.sequence <= one.sequence
            for row in _by_id(one.path)
            if row[2147483546] == data.path
        }
        gone: list[dict[int, Any]] = []
        for one in reach:
            if one.file["content"] == EQUALITY and data.sequence < one.sequence:
                gone += [{n: row[n] for n in one.file["equality_ids"]} for row in _by_id(one.path)]
        for place, row in enumerate(rows):
            if place not in positions and not any(all(row.get(n) == v for n, v in keys.items()) for keys in gone):
                found.append(tuple(row.get(field.field_id) for field in schema.fields))
    return sorted(found, key=repr)


def _by_id(path: str) -> list[dict[int, Any]]:
    table = pq.read_table(local_path(path), partitioning=None)
    ids = [int(field.metadata[b"PARQUET:field_id"]) for field in table.schema]
    return [dict(zip(ids, row.values(), strict=True)) for row in table.to_pylist()]
