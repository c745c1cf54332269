"""Paimon tables on local disk, warm, beside Paimon's own Java library: orphans, and expiry until the bytes are gone."""

from __future__ import annotations

import shutil

from bench import peer_paimon as peer
from bench.bench import Bench
from bench.lakes_paimon import PaimonLake, paimon_lake
from bench.lifecycle import expired
from bench.measure import Figures, Row, Sample, load
from bench.ours import first_plan

ORPHANS = {"one": 4, "fleet100": 6}
EXPIRY = {"one": 1, "fleet100": 5}


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
    work = f"Paimon orphans: {_described(lake)}"
    return _row(f"paimon-orphans-{kind}", work, ours, theirs, ORPHANS[kind], began, note)


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
        mine = expired(one, bench.scratch, gone, f"retain_min = {lake.shape.kept}\nretain_max = {lake.shape.kept}")
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
    return _row(f"paimon-expiry-{kind}", work, ours, theirs, EXPIRY[kind], began, note)


def _described(lake: PaimonLake) -> str:
    shape = lake.shape
    if shape.tables > 1:
        return f"{shape.tables} tables of {shape.data_files // shape.tables} files, {shape.snapshots} snapshots each"
    return f"one table, {shape.data_files:,} files, {shape.partitions} partitions, {shape.snapshots} snapshots"


def _row(name: str, work: str, ours: list[Sample], theirs: list[Sample], target: float, began: float, note: str) -> Row:
    mine, other = Figures.of(ours), Figures.of(theirs)
    return Row(name, work, mine, other, other.value / mine.value, target, (began, load()), note=note)
