"""Applying plans of a million and of ten million rows; a look at ten thousand tables before a batch."""

from __future__ import annotations

import json
import sys

from bench.bench import Bench, command
from bench.lakes import local_lake
from bench.measure import Figures, Row, Sample, load
from bench.ours import Deployment

SMALL, LARGE = 1_000_000, 10_000_000
MEMORY_TARGET = 1.2
TABLES = 10_000
LOOK_TARGET = 0.1
MEGABYTE = 1 << 20
SETTINGS = "rate_limit_ms = 0\nmax_orphan_share = 1.0\n"


def applies(bench: Bench) -> list[Row]:
    """Each size in a process of its own, so that nothing is left over from the other."""
    began = load()
    small, large = (_applied(bench, count // bench.shrink) for count in (SMALL, LARGE))
    work = f"apply of {LARGE // bench.shrink:,} generated rows, against {SMALL // bench.shrink:,}"
    note = "peak resident memory of the process; the store answers at once"
    row = Row(
        "applies", work, large, small, large.value / small.value, MEMORY_TARGET, (began, load()), "MB", True, note
    )
    return [row, _look(bench)]


def _applied(bench: Bench, count: int) -> Figures:
    deployment = Deployment.fresh(local_lake(bench.scratch, "deletes", anew=True), bench.scratch, SETTINGS)
    ours = (sys.executable, "-m", "bench.apply_rows", deployment.config, str(count))
    plan = json.loads(command(*ours).splitlines()[-1])["plan"]
    told = json.loads(command(*ours, plan).splitlines()[-1])
    deployment.discard()
    return Figures(told["peak"] / MEGABYTE, {"apply, seconds": told["seconds"]}, (told["peak"] / MEGABYTE,))


def _look(bench: Bench) -> Row:
    """What comes before a batch: all pointers of a SQL catalog, compared with the plan and with what is remembered."""
    began = load()
    deployment = Deployment.fresh(local_lake(bench.scratch, "deletes", anew=True), bench.scratch, SETTINGS)
    count = TABLES // bench.shrink
    told = json.loads(command(sys.executable, "-m", "bench.look", deployment.config, str(count)).splitlines()[-1])
    deployment.discard()
    first, later = (Figures.of([Sample(seconds) for seconds in told[name]]) for name in ("first", "later"))
    work = f"a look at {count:,} tables of a SQL catalog before a batch, in seconds, against the first look"
    return Row("look", work, later, first, later.value, LOOK_TARGET, (began, load()), "s", True, "none of them moved")
