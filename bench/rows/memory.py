"""What the driver holds after a plan: ten million listed files against a hundred thousand, from an inventory."""

from __future__ import annotations

import json
import os
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bench.bench import Bench, command
from bench.lakes import Lake, local_lake
from bench.measure import Figures, Row, load
from bench.ours import Deployment

SMALL, LARGE = 100_000, 10_000_000
CHUNK = 500_000
TARGET = 1.3
MEGABYTE = 1 << 20
INSTANT = pa.timestamp("us", tz="UTC")


def memory(bench: Bench) -> list[Row]:
    """Each size in a process of its own, so that nothing is left over from the other."""
    began = load()
    large = _figures(bench, local_lake(bench.scratch, "million", bench.shrink), LARGE // bench.shrink)
    small = _figures(bench, local_lake(bench.scratch, "one", bench.shrink), SMALL // bench.shrink)
    work = f"driver after a plan over {LARGE // bench.shrink:,} listed files, against {SMALL // bench.shrink:,}"
    note = (
        "resident memory of Python and its JVM after a collection in both (the JVM is also the executor here); "
        "a million of the files are live, against a hundred thousand"
    )
    return [Row("memory", work, large, small, large.value / small.value, TARGET, (began, load()), "MB", True, note)]


def _figures(bench: Bench, lake: Lake, count: int) -> Figures:
    place = inventory(bench.scratch, lake, count)
    settings = f'inventory = {{ "{lake.warehouse}" = "file://{place}" }}\n'
    deployment = Deployment.fresh(lake, bench.scratch, settings)
    text = command(sys.executable, "-m", "bench.rss", deployment.config, str(deployment.base / "plan"))
    deployment.discard()
    told = json.loads(text.splitlines()[-1])
    assert told["listed"] >= count, told
    parts = {name: told[name] / MEGABYTE for name in ("python", "jvm", "jvm heap in use")}
    total = parts["python"] + parts["jvm"]
    return Figures(total, {**parts, "plan, seconds": told["seconds"]}, (total,))


def inventory(scratch: Path, lake: Lake, count: int) -> Path:
    """Parquet files that name the lake's own files and, up to `count`, files that are too new to judge."""
    place = scratch / f"inventory-{lake.name}-{count}"
    if (place / "whole").exists():
        return place
    place.mkdir(parents=True, exist_ok=True)
    location = lake.load(lake.tables()[0]).location()
    old, new = datetime.now(UTC) - timedelta(days=30), datetime.now(UTC) + timedelta(days=300)
    real = [
        f"file://{directory}/{name}"
        for directory, _, names in os.walk(lake.warehouse.removeprefix("file://"))
        for name in names
    ]
    for start in range(0, len(real), CHUNK):
        _write(place / f"real-{start:09d}.parquet", pa.array(real[start : start + CHUNK]), old)
    for start in range(0, count - len(real), CHUNK):
        text = pa.array(range(start, min(count - len(real), start + CHUNK)), pa.int64()).cast(pa.string())
        parts = (f"{location}/data/p=", pc.utf8_slice_codeunits(text, -2), "/", text, ".parquet", "")
        _write(place / f"more-{start:09d}.parquet", pc.binary_join_element_wise(*parts), new)
    (place / "whole").touch()
    return place


def _write(path: Path, names: pa.Array, modified: datetime) -> None:
    sizes = pa.repeat(pa.scalar(1000, pa.int64()), len(names))
    instants = pa.repeat(pa.scalar(modified, INSTANT), len(names))
    pq.write_table(pa.table({"path": names, "size": sizes, "modified": instants}), path)
