"""Paimon tables on local disk, warm, beside Paimon's own Java library: orphans, and expiry until the bytes are gone."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

from bench import peer_paimon as peer
from bench.bench import Bench
from bench.lakes_paimon import PaimonLake, paimon_lake
from bench.measure import Figures, Row, Sample, load, timed
from bench.ours import Deployment, first_plan, plan
from lakewarden.model.clock import SystemClock
from lakewarden.warden import Warden

TARGET = 3
DELAY = timedelta(hours=1)
# As the peer: expiry at once, whatever a snapshot's age, and deletion without pauses.
SETTINGS = """
[snapshot_expiry]
retain_min = {kept}
retain_max = {kept}
retain_hours = 0

[physical_deletion]
visibility_delay_hours = 1
rate_limit_ms = 0
batch_size = 20000
max_concurrent_deletions = 20
"""


class LaterClock(SystemClock):
    """The machine's clock, and later by the time that released files have to wait."""

    def now(self) -> datetime:
        return datetime.now(UTC) + DELAY + timedelta(minutes=1)


def orphans_one(bench: Bench) -> list[Row]:
    return [_orphans(bench, "one")]


def orphans_fleet100(bench: Bench) -> list[Row]:
    return [_orphans(bench, "fleet100")]


def expiry_one(bench: Bench) -> list[Row]:
    return [_expiry(bench, "one")]


def expiry_fleet100(bench: Bench) -> list[Row]:
    return [_expiry(bench, "fleet100")]


def _orphans(bench: Bench, kind: str) -> Row:
    """A plan against a dry run; both must name the planted files and no other."""
    assert bench.spark  # the JVM of both
    lake, began = paimon_lake(bench.scratch, kind, bench.shrink), load()
    ours: list[Sample] = []
    theirs: list[Sample] = []
    for number in range(bench.repeat + 1):
        took, found = peer.orphans(lake)
        mine, planned = first_plan(lake, bench.scratch)
        if planned != found or len(found) != lake.shape.tables * lake.shape.orphans:
            raise AssertionError(f"{lake.name}: {len(planned)} orphans planned, {len(found)} found by the peer")
        if number:  # the first is to get warm
            theirs.append(took)
            ours.append(mine)
    note = "other: Paimon 1.4.2 LocalOrphanFilesClean(dry run), table by table"
    return _row(f"paimon-orphans-{kind}", f"Paimon orphans: {_described(lake)}", ours, theirs, began, note)


def _expiry(bench: Bench, kind: str) -> Row:
    """Two plans and their applies against one call; in the end the same files must be left."""
    assert bench.spark
    lake, began = paimon_lake(bench.scratch, kind, bench.shrink), load()
    ours: list[Sample] = []
    theirs: list[Sample] = []
    copies = bench.scratch / "copies"
    for number in range(bench.repeat + 1):
        one, other = lake.copied(copies / "ours"), lake.copied(copies / "theirs")
        took, gone = peer.expire(other)
        mine = _expired(one, bench.scratch, gone)
        left, expected = one.files(), other.files()
        if left != expected or gone != lake.shape.tables * (lake.shape.snapshots - lake.shape.kept):
            raise AssertionError(
                f"{lake.name}: {gone} snapshots gone; left only by us: {sorted(left - expected)[:3]}, "
                f"only by the peer: {sorted(expected - left)[:3]}"
            )
        if number:
            theirs.append(took)
            ours.append(mine)
    shutil.rmtree(copies)
    note = (
        "ours: plan and apply of the expiry, plan and apply of the deletion; other: Paimon 1.4.2 ExpireSnapshots, "
        "which deletes at once, table by table"
    )
    work = f"Paimon expiry of {gone:,} snapshots, {lake.shape.released:,} data files: {_described(lake)}"
    return _row(f"paimon-expiry-{kind}", work, ours, theirs, began, note)


def _expired(lake: PaimonLake, scratch: Path, snapshots: int) -> Sample:
    """From the first plan to the last deleted byte, with the wait in between left out."""
    deployment = Deployment.fresh(lake, scratch, SETTINGS.format(kept=lake.shape.kept))
    now, later = deployment.open(), deployment.open(LaterClock())
    try:
        stages = [
            *_planned_and_applied(deployment, now, "snapshot-expiry", {"snapshots": snapshots}),
            *_planned_and_applied(deployment, later, "physical-deletion", {}),
        ]
    finally:
        now.close()
        later.close()
        deployment.discard()
    return Sample(sum(took for name, took in stages if not name.startswith("(")), dict(stages))


def _planned_and_applied(
    deployment: Deployment, warden: Warden, job: str, wanted: dict[str, int]
) -> list[tuple[str, float]]:
    planning, result = plan(deployment, warden, job=job)

    def apply() -> None:
        run = warden.apply(result)
        if run.status != "done" or run.absent or not wanted.items() <= dict(run.changed).items():
            raise AssertionError(f"{job}: {run}")

    inside = [(f"({job}: {name.strip('()')})", took) for name, took in planning.stages.items()]
    return [(f"{job} plan", planning.seconds), *inside, (f"{job} apply", timed(apply).seconds)]


def _described(lake: PaimonLake) -> str:
    shape = lake.shape
    if shape.tables > 1:
        return f"{shape.tables} tables of {shape.data_files // shape.tables} files, {shape.snapshots} snapshots each"
    return f"one table, {shape.data_files:,} files, {shape.partitions} partitions, {shape.snapshots} snapshots"


def _row(name: str, work: str, ours: list[Sample], theirs: list[Sample], began: float, note: str) -> Row:
    mine, other = Figures.of(ours), Figures.of(theirs)
    return Row(name, work, mine, other, other.value / mine.value, TARGET, (began, load()), note=note)
