"""The other side for Paimon tables: its own Java library in the JVM of the session, called table by table."""

from __future__ import annotations

import time
from datetime import timedelta

from bench.lakes_paimon import PaimonLake
from bench.measure import Sample
from bench.peer import GRACE
from tests.formats.paimon import java


def orphans(lake: PaimonLake) -> tuple[Sample, set[str]]:
    """`LocalOrphanFilesClean` as a dry run on each table, and the files it found. It takes every core of itself."""
    found: set[str] = set()
    older = round((time.time() - GRACE / timedelta(seconds=1)) * 1000)
    began = time.perf_counter()
    for location in lake.locations():
        found.update(f"file://{path}" for path in java.orphans(location, older, dry_run=True).paths)
    return _sample(lake, began), found


def expire(lake: PaimonLake) -> tuple[Sample, int]:
    """`ExpireSnapshots` on each table, which deletes files at once; how many snapshots went."""
    kept, gone = lake.shape.kept, 0
    began = time.perf_counter()
    for location in lake.locations():
        gone += java.expire(location, retain_max=kept, retain_min=kept, time_retained_ms=0)
    return _sample(lake, began), gone


def _sample(lake: PaimonLake, began: float) -> Sample:
    seconds = time.perf_counter() - began
    return Sample(seconds, {"a table": seconds / lake.shape.tables})
