"""Unknown metadata files, opened on executors: a table of ten thousand old versions must not pass the driver."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakewarden.pipeline import columns as c
from lakewarden.pipeline.read.frames import in_tasks
from lakewarden.pipeline.read.names import METADATA_JSON

# Judges one file: (address, table's name) -> a finding worth telling the driver, or None.
Recognise = Callable[[str, str], dict[str, Any] | None]
FINDINGS = pa.schema([("uri", pa.string()), ("table", pa.string()), (c.ROOT, pa.int32()), ("finding", pa.string())])
OPEN_AT_ONCE = 16


def recognise(
    recognisers: Mapping[str, Any], formats: Mapping[str, str], stores: Any, uri: str, table: str, whole: bool = False
) -> dict[str, Any] | None:
    """What the table's format says of a metadata file that no table names."""
    found: dict[str, Any] | None = recognisers[formats[table]](uri, table, stores, whole)
    return found


def unknown_metadata(rows: DataFrame) -> DataFrame:
    """PLAN_ROWS in: the metadata files among them that nothing reaches."""
    return rows.where((F.col("verdict") != "live") & F.col("uri").rlike(METADATA_JSON))


def findings(rows: DataFrame, recognise: Recognise) -> list[dict[str, Any]]:
    """What is worth knowing of these files: one small row for each that is not simply old."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with ThreadPoolExecutor(OPEN_AT_ONCE) as pool:
            for batch in batches:
                asked = batch.to_pylist()
                answers = pool.map(lambda row: recognise(row["uri"], row["table"]), asked)
                told = newest([{**row, **found} for row, found in zip(asked, answers, strict=True) if found])
                rows = [
                    {name: row[name] for name in ("uri", "table", c.ROOT)} | {"finding": json.dumps(row)}
                    for row in told
                ]
                yield from pa.Table.from_pylist(rows, schema=FINDINGS).to_batches()

    told = in_tasks(rows.select("uri", "table", c.ROOT), run, FINDINGS).collect()
    return newest([json.loads(row.finding) for row in told])


def newest(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The findings, of those with a `rank` only the highest of each table: a thousand old versions are one answer."""
    best: dict[str, dict[str, Any]] = {}
    for row in found:
        if "rank" in row and row["rank"] >= best.get(row["uuid"], row)["rank"]:
            best[row["uuid"]] = row
    return [*(row for row in found if "rank" not in row), *best.values()]
