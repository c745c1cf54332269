"""A week that has passed before anybody looks: writers commit every day, and every night the service's jobs run.

The work is real: each day is gone through with a clock that is some days behind, and the ledger has its journal.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField

import lakewarden
from demo import audit, branches
from demo.lake import DemoLake, days_ago
from demo.past import Past, stores_in_the_past
from lakewarden.ledger.requests import SCHEDULED
from lakewarden.model.actor import Actor, Trigger
from lakewarden.model.service import RequestKind
from lakewarden.service.runner.loop import Runner
from lakewarden.settings import Settings, load_settings
from lakewarden.warden import Warden
from lakewarden.wiring import Wiring

DAYS = 7
NIGHTLY = ("history", "snapshot-expiry", "physical-deletion")
# Of the days, one on which the catalog could not be opened.
DOWN = 3
SESSIONS, PINGS = "web.sessions", "web.pings"
SOURCES = ("web.clicks", "shop.orders")
PING_BATCHES, PING_HOSTS = 6, 20
NUMBERS = pa.schema([("id", pa.int64()), ("seconds", pa.float64())])
PING = Schema(NestedField(1, "host", LongType(), required=False), NestedField(2, "at", LongType(), required=False))
BY_HOST = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "host"))


def pass_by(config: Path, lake: DemoLake, tell: Callable[[str], None]) -> None:
    """Let the days pass, and leave the lake as it is this morning."""
    settings = load_settings(str(config), env={})
    warehouse = lake.base / "warehouse"
    with days_ago(warehouse, DAYS + 1):
        audit.build(lake)
        branches.build(lake)
        _pings(lake)
        sessions = lake.catalog.create_table(SESSIONS, NUMBERS)
    for ago in range(DAYS, -1, -1):
        with days_ago(warehouse, ago + 0.3):
            _write(lake, sessions, ago)
        if ago:
            tell(f"{ago} {'days' if ago > 1 else 'day'} ago: a writer commits, and the night's jobs run")
            _night(settings, lake, ago)
    # This morning somebody finds that a branch has lost the file without which nobody can read it.
    branches.list_of(lake.catalog.load_table(branches.TABLE), branches.LOST).unlink()


def _night(settings: Settings, lake: DemoLake, ago: int) -> None:
    """The jobs of one night, as the schedule would ask for them, on the clock of that night."""
    clock = Past(timedelta(days=ago))
    wiring = Wiring(settings, clock)
    runner = Runner(wiring.deployment, settings, Warden(wiring, settings), settings.worker.id)
    actor = Actor("schedule", settings.worker.id, Trigger.SCHEDULE)
    night = datetime.now(UTC) - timedelta(days=ago)
    try:
        with stores_in_the_past(clock):
            for job in NIGHTLY:
                wiring.deployment.ledger.requests.create(
                    wiring.deployment.new_id(),
                    RequestKind.RUN,
                    actor,
                    job=job,
                    arguments={"enabled_only": True},
                    idempotency_key=f"{SCHEDULED}{job}/{night:%Y-%m-%d}",
                )
            if ago == DOWN:
                _without_catalog(lake, runner.work_once)
            while runner.work_once() is not None:
                pass
    finally:
        wiring.close()


def _without_catalog(lake: DemoLake, work: Callable[[], object]) -> None:
    """One piece of work that finds no catalog: somebody has put a directory in its place."""
    file, aside = lake.base / "catalog.db", lake.base / "catalog.db.aside"
    file.rename(aside)
    file.mkdir()
    try:
        work()
    finally:
        file.rmdir()
        aside.rename(file)


def _write(lake: DemoLake, sessions: Table, ago: int) -> None:
    """Sessions are written anew every day, from the clicks and orders of that day."""
    inputs = [lake.catalog.load_table(name) for name in SOURCES]
    draw, rows = np.random.default_rng(ago), 150_000 + 60_000 * (ago % 3) + 15_000 * ago
    seconds = pa.table({"id": np.arange(rows), "seconds": draw.exponential(90.0, rows)}, schema=NUMBERS)
    said = lakewarden.lineage("sessionize", commit_hash="5e55104")
    write = sessions.overwrite if sessions.current_snapshot() else sessions.append
    write(seconds, snapshot_properties=said.properties(inputs=inputs))


def _pings(lake: DemoLake) -> None:
    """Many small files: what is left by a writer that commits often into many partitions."""
    table = lake.catalog.create_table(PINGS, PING, partition_spec=BY_HOST)
    for batch in range(PING_BATCHES):
        rows = [{"host": host, "at": batch} for host in range(PING_HOSTS)]
        table.append(pa.Table.from_pylist(rows, schema=table.schema().as_arrow()))
