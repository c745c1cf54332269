"""What a night asks of us: scheduled plans beside manual ones, a fleet that has not changed beside a bare listing, and
costs that grow with tables and with roots, and with nothing else."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from bench.bench import Bench
from bench.lakes import Lake, local_lake
from bench.measure import Figures, Row, Sample, load, timed
from bench.ours import Deployment, first_plan, plan
from lakewarden.model.actor import Actor, Trigger
from lakewarden.model.ports import Shard
from lakewarden.pipeline import columns as c
from lakewarden.pipeline.read.frames import local
from lakewarden.pipeline.read.listing import list_shards, shards_table
from lakewarden.storage.stores import Stores

SCHEDULED = Actor("bench", "bench", Trigger.SCHEDULE)
# Any earlier plan confirms: nobody waits four hours for a benchmark.
NO_MARGIN = "confirmation_margin_hours = 0\n"
MOST_OVER_LISTING = 1.5
MOST_OVER_LINEAR = 1.25


def scheduled(bench: Bench) -> list[Row]:
    """A scheduled plan, which compares with earlier sightings, beside a manual one of the same fleet and memory."""
    return [_scheduled(bench, kind) for kind in ("fleet100", "fleet1000")]


def _scheduled(bench: Bench, kind: str) -> Row:
    lake = local_lake(bench.scratch, kind, bench.shrink)
    assert bench.spark
    deployment = Deployment.fresh(lake, bench.scratch, NO_MARGIN)
    warden = deployment.open()
    plan(deployment, warden)
    began, nights, days = load(), [], []
    for _ in range(bench.repeat):
        days.append(plan(deployment, warden)[0])
        took, result = plan(deployment, warden, actor=SCHEDULED)
        nights.append(took)
        confirmed = result.plan.totals()["verdicts"]["orphan"]["files"]
        assert confirmed == lake.shape.orphans * lake.shape.tables, f"{confirmed} orphans were confirmed"
    warden.close()
    deployment.discard()
    ours, manual = Figures.of(nights), Figures.of(days)
    work = f"scheduled plan, {lake.shape.tables} tables, against a manual one"
    ratio = ours.value / manual.value
    return Row(f"scheduled-{kind}", work, ours, manual, ratio, 1.1, (began, load()), at_most=True)


def unchanged(bench: Bench) -> list[Row]:
    """The second plan of a fleet that did not change, beside the bare listing of its roots by the same tasks."""
    lake = local_lake(bench.scratch, "fleet1000", bench.shrink)
    spark = bench.spark
    shards = [Shard(n, f"{lake.load(name).location()}/") for n, name in enumerate(lake.tables())]
    deployment = Deployment.fresh(lake, bench.scratch)
    warden = deployment.open()
    plan(deployment, warden)
    began, plans, listings = load(), [], []
    for _ in range(bench.repeat):
        plans.append(plan(deployment, warden)[0])
        rows = local(spark, shards_table(shards))
        step = list_shards(Stores({}))
        listings.append(timed(lambda rows=rows, step=step: rows.mapInArrow(step, c.ddl(c.LISTED)).count()))
    warden.close()
    deployment.discard()
    ours, listing = Figures.of(plans), Figures.of(listings)
    work = f"second plan of {lake.shape.tables} unchanged tables, against the bare listing of their roots"
    ratio = ours.value / listing.value
    return [Row("unchanged", work, ours, listing, ratio, MOST_OVER_LISTING, (began, load()), at_most=True)]


def tables(bench: Bench) -> list[Row]:
    """Ten thousand tables against a quarter of them: four times the time, and hardly more."""
    large, small = (local_lake(bench.scratch, kind, bench.shrink) for kind in ("tables10000", "tables2500"))
    assert bench.spark
    began = load()
    times = {lake.name: Figures.of([_first(bench, lake) for _ in range(bench.repeat)]) for lake in (small, large)}
    work = f"first plan of {large.shape.tables:,} tables, against {small.shape.tables:,}, for each table"
    return [_linear("tables", work, times[large.name], times[small.name], large, small, began)]


def roots(bench: Bench) -> list[Row]:
    """An inventory over four thousand roots against one over a thousand."""
    lake = local_lake(bench.scratch, "tables10000", bench.shrink)
    assert bench.spark
    began, found = load(), []
    for count in (4_000 // bench.shrink, 1_000 // bench.shrink):
        names = lake.tables()[:count]
        place = _inventory(bench.scratch, lake, names)
        settings = f'inventory = {{ "{lake.warehouse}" = "file://{place}" }}\n'
        samples = []
        for _ in range(bench.repeat):
            deployment = Deployment.fresh(lake, bench.scratch, settings)
            warden = deployment.open()
            samples.append(plan(deployment, warden, select=[f"{lake.name}.{name}" for name in names])[0])
            warden.close()
            deployment.discard()
        found.append((Figures.of(samples), count))
    (large, many), (small, few) = found
    work = f"plan of {many:,} roots over an inventory, against {few:,}, the fleet being the same"
    ratio = large.value / small.value
    return [Row("roots", work, large, small, ratio, many / few * MOST_OVER_LINEAR, (began, load()), at_most=True)]


def _first(bench: Bench, lake: Lake) -> Sample:
    return first_plan(lake, bench.scratch)[0]


def _linear(name: str, work: str, large: Figures, small: Figures, many: Lake, few: Lake, began: float) -> Row:
    ratio = (large.value / many.shape.tables) / (small.value / few.shape.tables)
    return Row(name, work, large, small, ratio, MOST_OVER_LINEAR, (began, load()), at_most=True)


def _inventory(scratch: Path, lake: Lake, names: list[str]) -> Path:
    """One Parquet file that names every file of these tables."""
    place = scratch / f"inventory-{lake.name}-{len(names)}.parquet"
    if place.exists():
        return place
    found: list[tuple[str, int, datetime]] = []
    for name in names:
        for directory, _, files in os.walk(lake.load(name).location().removeprefix("file://")):
            for file in files:
                stat = os.stat(os.path.join(directory, file))
                found.append((f"file://{directory}/{file}", stat.st_size, datetime.fromtimestamp(stat.st_mtime, UTC)))
    paths, sizes, instants = zip(*found, strict=True)
    pq.write_table(pa.table({"path": paths, "size": sizes, "modified": instants}), place)
    return place
