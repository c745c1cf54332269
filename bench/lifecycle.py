"""A day of our side, timed: plan and apply of an expiry, plan and apply of the deletion, without the wait in between."""

from __future__ import annotations

import sqlite3
from datetime import UTC, datetime, timedelta
from pathlib import Path

from bench.measure import Sample, timed
from bench.ours import AnyLake, Deployment, plan
from lakewarden.warden import Warden

DELAY = timedelta(hours=1)
# As the peers: expiry at once, whatever a snapshot's age, and deletion without pauses.
SETTINGS = """
[snapshot_expiry]
{expiry}
retain_hours = 0

[physical_deletion]
visibility_delay_hours = 1
rate_limit_ms = 0
batch_size = 20000
max_concurrent_deletions = 20
"""


def expired(lake: AnyLake, scratch: Path, snapshots: int, expiry: str) -> Sample:
    """From the first plan to the last deleted byte."""
    deployment = Deployment.fresh(lake, scratch, SETTINGS.format(expiry=expiry))
    warden = deployment.open()
    try:
        stages = _planned_and_applied(deployment, warden, "snapshot-expiry", {"snapshots": snapshots})
        _let_time_pass(deployment)
        stages += _planned_and_applied(deployment, warden, "physical-deletion", {})
    finally:
        warden.close()
        deployment.discard()
    return Sample(sum(took for name, took in stages if not name.startswith("(")), dict(stages))


def _let_time_pass(deployment: Deployment) -> None:
    """The delay has no switch, so the entries in the ledger are made older."""
    then = (datetime.now(UTC) - 2 * DELAY).isoformat(timespec="microseconds")
    with sqlite3.connect(deployment.base / "state" / "lakewarden.db") as ledger:
        ledger.execute("UPDATE lw_pending SET released_at = ?", (then,))


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
