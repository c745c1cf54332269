"""Expiry of Iceberg tables on local disk, warm, beside Iceberg's own `expire_snapshots`: until the bytes are gone."""

from __future__ import annotations

import time
from datetime import UTC, datetime

from bench.bench import Bench
from bench.lakes_expiring import ExpiringLake, expiring_lake
from bench.lifecycle import expired
from bench.measure import Figures, Row, Sample, load
from bench.peer import spark_defaults

TARGETS = {"fleet100": 10, "one": 3}
# Of a fleet, the peer needs minutes: it is run once warm.
FLEET_REPEAT = 1


def fleet100(bench: Bench) -> list[Row]:
    return [_expiry(bench, "fleet100", min(FLEET_REPEAT, bench.repeat))]


def one(bench: Bench) -> list[Row]:
    return [_expiry(bench, "one", bench.repeat)]


def _expiry(bench: Bench, kind: str, repeat: int) -> Row:
    """Two plans and their applies against one call a table; in the end the same files must be left."""
    lake, began = expiring_lake(bench.spark, bench.scratch, kind, bench.shrink), load()
    history = lake.history
    ours: list[Sample] = []
    theirs: list[Sample] = []
    settings = f"retain_min = {history.kept}"
    for number in range(repeat + 1):
        lake.put_back()
        took = _peer(bench, lake)
        expected = lake.files()
        lake.put_back()
        mine = expired(lake, bench.scratch, history.expired, settings)
        left = lake.files()
        if left != expected:
            raise AssertionError(
                f"{lake.name}: left only by us: {sorted(left - expected)[:3]}, only by the peer: {sorted(expected - left)[:3]}"
            )
        if number:  # the first is to get warm
            theirs.append(took)
            ours.append(mine)
    figures, others = Figures.of(ours), Figures.of(theirs)
    note = (
        "ours: plan and apply of the expiry, plan and apply of the deletion; other: Iceberg 1.12 expire_snapshots, "
        "which deletes at once, table by table"
    )
    tables = f"{history.tables} tables of" if history.tables > 1 else "one table of"
    files = history.data_files // history.tables
    work = f"Iceberg expiry, {history.expired:,} snapshots to go: {tables} {history.snapshots:,} snapshots, {files:,} files"
    ratio = others.value / figures.value
    return Row(f"expiry-{kind}", work, figures, others, ratio, TARGETS[kind], (began, load()), note=note)


def _peer(bench: Bench, lake: ExpiringLake) -> Sample:
    spark = bench.spark
    with spark_defaults(spark, "4"):
        began = time.perf_counter()
        for table in lake.tables():
            older = f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S.%f}"
            spark.sql(
                f"CALL {lake.name}.system.expire_snapshots(table => '{table}', older_than => TIMESTAMP '{older}', "
                f"retain_last => {lake.history.kept}, max_concurrent_deletes => 20)"
            ).collect()
        took = time.perf_counter() - began
    return Sample(took, {"calls": took})
