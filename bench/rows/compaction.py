"""Compaction beside Iceberg's own `rewrite_data_files` on the same data, both warm; copied row groups beside `cp`."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from bench.bench import Bench
from bench.lakes_compacting import SCHEMA, CompactingLake, compacting_lake
from bench.measure import Figures, Row, Sample, load, timed
from bench.ours import Deployment, plan
from bench.peaks import HEAP, peaks
from bench.peer import spark_defaults
from lakewarden.formats.iceberg.compaction.compactor import IcebergRewriteWorker
from lakewarden.formats.iceberg.data.order import COPIED, Input, Order, Rewritten
from lakewarden.storage.stores import Stores
from tests.support.spark import add_sqlite_catalog

TARGETS = {"one": 4.0, "fleet": 6.0, "fleet-rows": 6.0, "fleet-more-rows": 6.0}
COPY_TARGET = 2.0
CORES = 2
SETTINGS = "\n[compaction]\nbandwidth_share = 1.0\n"


def compaction(bench: Bench) -> list[Row]:
    return [_copy(bench), *(_beside(bench, kind) for kind in TARGETS)]


def _beside(bench: Bench, kind: str) -> Row:
    """Plan and apply against a call a table, in as many threads as there are cores. Both must leave the same rows."""
    lake, began = compacting_lake(bench.scratch, kind, bench.shrink), load()
    add_sqlite_catalog(bench.spark, lake.name, lake.database, lake.warehouse)
    ours: list[Sample] = []
    theirs: list[Sample] = []
    peak: list[Mapping[str, float]] = []
    for number in range(bench.repeat + 1):
        # The first is to get warm, and to see the peaks: whoever looks at the memory of a process stops it meanwhile.
        watch = partial(nullcontext, {}) if number else partial(peaks, bench.spark)
        lake.put_back()
        with watch() as held:
            mine = _ours(bench, lake)
        left = _state(lake)
        lake.put_back()
        with watch() as others_held:
            other = _peer(bench, lake)
        peak = peak if number else [held, {HEAP: others_held[HEAP]}]  # no Python is at work for the peer
        if (expected := _state(lake)) != left:
            raise AssertionError(f"{lake.name}: {left} rows by table after ours, {expected} after the peer")
        if number:
            ours.append(mine)
            theirs.append(other)
    figures, others = (Figures.of(side).with_stages(most) for side, most in zip((ours, theirs), peak, strict=True))
    heap, size = lake.heap, sum(path.stat().st_size for path in lake.inputs(lake.tables()[0])) / 1e6
    tables = f"{heap.tables} tables of" if heap.tables > 1 else "one table of"
    work = f"compaction, {tables} {heap.files} files and {size:.0f} MB ({size * 1000 / heap.files:.0f} kB a file)"
    note = (
        f"ours: plan and apply; other: Iceberg 1.12 rewrite_data_files, {CORES} tables at a time; "
        "peaks are in megabytes, of the task processes of Python and of the heap of the one JVM"
    )
    ratio = others.value / figures.value
    return Row(f"compaction-{kind}", work, figures, others, ratio, TARGETS[kind], (began, load()), note=note)


def _ours(bench: Bench, lake: CompactingLake) -> Sample:
    deployment = Deployment.fresh(lake, bench.scratch, SETTINGS)
    warden = deployment.open()
    try:
        planning, result = plan(deployment, warden, job="compaction")

        def apply() -> None:
            run = warden.apply(result)
            if run.status != "done" or run.kept or not run.changed["groups"]:
                raise AssertionError(f"{run}: {json.dumps(warden.run_detail(run.run_id)['steps'])[:2000]}")

        applying = timed(apply)
    finally:
        warden.close()
        deployment.discard()
    return Sample(planning.seconds + applying.seconds, {"plan": planning.seconds, "apply": applying.seconds})


def _peer(bench: Bench, lake: CompactingLake) -> Sample:
    spark = bench.spark
    for table in lake.tables():
        spark.sql(f"REFRESH TABLE {lake.name}.{table}")

    def call(table: str) -> None:
        rewritten = spark.sql(f"CALL {lake.name}.system.rewrite_data_files(table => '{table}')").collect()[0]
        if not rewritten["rewritten_data_files_count"]:
            raise AssertionError(f"{table}: {rewritten}")

    with spark_defaults(spark, "4"):
        began = time.perf_counter()
        with ThreadPoolExecutor(CORES) as pool:
            list(pool.map(call, lake.tables()))
        took = time.perf_counter() - began
    return Sample(took, {"calls": took})


def _state(lake: CompactingLake) -> dict[str, int]:
    """Rows by table, as their manifests count them; files must be fewer than there were."""
    from pyiceberg.catalog.sql import SqlCatalog

    catalog = SqlCatalog(lake.name, **lake.properties)
    found: dict[str, int] = {}
    for table in lake.tables():
        summary: Any = catalog.load_table(table).current_snapshot().summary  # type: ignore[union-attr]
        found[table] = int(summary["total-records"])
        if int(summary["total-data-files"]) >= lake.heap.files:
            raise AssertionError(f"{table}: {summary}")
    catalog.close()
    return found


def _copy(bench: Bench) -> Row:
    """The task's own work, without plan and commit, against the same bytes copied by `cp`; both until they are on disk."""
    lake, began = compacting_lake(bench.scratch, "copy", bench.shrink), load()
    lake.put_back()
    files, place = lake.inputs(lake.tables()[0]), bench.scratch / "copied"
    columns = {"type": "struct", **json.loads(SCHEMA.model_dump_json())}
    inputs = tuple(Input(f"file://{path}", path.stat().st_size, lake.heap.rows, 1) for path in files)
    order = Order("g", 2, columns, inputs, f"file://{place}/out", 1 << 40, sizes=(0, 1 << 40))
    ours: list[Sample] = []
    theirs: list[Sample] = []
    for number in range(bench.repeat + 1):
        mine = _timed_in(place, lambda: _copied(order, files))
        other = _timed_in(place, lambda: _cp(files, place))
        if number:
            ours.append(mine)
            theirs.append(other)
    shutil.rmtree(place)
    figures, others = Figures.of(ours), Figures.of(theirs)
    size = sum(one.size for one in inputs) / 1e6
    work = f"row groups of {len(files)} files and {size:.0f} MB copied into one file, against `cp` of the files"
    note = "both until the bytes are on disk; ours counts, walks every page, and reads floating-point columns for their NaNs"
    ratio = figures.value / others.value
    return Row("compaction-copy", work, figures, others, ratio, COPY_TARGET, (began, load()), at_most=True, note=note)


def _timed_in(place: Path, work: Any) -> Sample:
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    subprocess.run(["sync"], check=True)
    return timed(work)


def _copied(order: Order, files: list[Path]) -> None:
    result = Rewritten.loads(IcebergRewriteWorker().rewrite(replace(order).dumps(), Stores({})))
    if result.way != COPIED or result.code is not None:
        raise AssertionError(f"{result.why} {result.message}")
    found = pq.read_metadata(result.files[0].path.removeprefix("file://"))
    assert found.num_row_groups == len(files)


def _cp(files: list[Path], place: Path) -> None:
    subprocess.run(["cp", *map(str, files), str(place)], check=True)
    subprocess.run(["sync", *(str(place / path.name) for path in files)], check=True)
