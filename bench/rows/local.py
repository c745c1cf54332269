"""Tables on local disk, warm: one large table, and fleets of small ones."""

from __future__ import annotations

import random

from bench.bench import Bench
from bench.lakes import Lake, local_lake
from bench.measure import Figures, Row, Sample, load
from bench.ours import first_plan, uuids_of
from bench.peer import Peer

SAMPLE = 30


def one(bench: Bench) -> list[Row]:
    return [_large(bench, "one", 10)]


def million(bench: Bench) -> list[Row]:
    return [_large(bench, "million", 5)]


def fleet100(bench: Bench) -> list[Row]:
    lake = local_lake(bench.scratch, "fleet100", bench.shrink)
    return [
        versus(
            bench, "fleet100", f"{lake.shape.tables} tables of 100 files, local disk", Peer.over(bench.spark, lake), 20
        )
    ]


def fleet1000(bench: Bench) -> list[Row]:
    lake = local_lake(bench.scratch, "fleet1000", bench.shrink)
    work = f"{lake.shape.tables} tables of 100 files, local disk"
    return [versus(bench, "fleet1000", work, Peer.over(bench.spark, lake), 40, sample=SAMPLE)]


def _large(bench: Bench, kind: str, target: float) -> Row:
    lake = local_lake(bench.scratch, kind, bench.shrink)
    shape = lake.shape
    work = (
        f"one table, {shape.data_files:,} files, {shape.partitions} partitions, {shape.snapshots} snapshots, local disk"
    )
    return versus(bench, kind, work, Peer.over(bench.spark, lake), target)


def versus(
    bench: Bench, name: str, work: str, peer: Peer, target: float, sample: int | None = None, note: str = ""
) -> Row:
    """Both sides warm, the same lake, the same cores; their orphans must be the same files."""
    lake, began = peer.lake, load()
    tables = lake.tables()
    asked = sorted(random.Random(1).sample(tables, sample)) if sample and sample < len(tables) else tables
    peer = peer.tuned(asked[:5])
    uuids = uuids_of(lake)
    first_plan(lake, bench.scratch, uuids)
    theirs: list[Sample] = []
    ours: list[Sample] = []
    for _ in range(bench.repeat):
        took, found = peer.orphans(asked)
        theirs.append(took)
        took, planned = first_plan(lake, bench.scratch, uuids)
        ours.append(took)
        check_same(lake, asked, planned, found)
    said = [note] if note else []
    if len(asked) < len(tables):
        said.append(f"peer measured on {len(asked)} tables and scaled to {len(tables)}")
    said.append(
        f"peer: adaptive, {peer.partitions} shuffle partitions{', prefix listing' if peer.prefix_listing else ''}"
    )
    figures = Figures.of(theirs, len(tables) / len(asked))
    mine = Figures.of(ours)
    return Row(name, work, mine, figures, figures.value / mine.value, target, (began, load()), note="; ".join(said))


def check_same(lake: Lake, tables: list[str], planned: set[str], found: set[str]) -> None:
    """Speed counts only if the answer is the same: the planted orphans, all of them and nothing else."""
    if len(tables) < lake.shape.tables:
        places = tuple(f"{lake.load(table).location()}/" for table in tables)
        planned = {name for name in planned if name.startswith(places)}
    if planned != found or len(found) != lake.shape.orphans * len(tables):
        raise AssertionError(
            f"{lake.name}: {len(planned)} orphans planned, {len(found)} found by the peer; "
            f"only ours: {sorted(planned - found)[:3]}, only the peer's: {sorted(found - planned)[:3]}"
        )
