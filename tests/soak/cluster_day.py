"""`python -m tests.soak.cluster_day CONFIG`: every job of a day by one deployment, told as JSON, one line a job."""

from __future__ import annotations

import json
import sys
from datetime import timedelta
from typing import Any

from lakewarden.steps.observe import clocks
from lakewarden.wiring import open_warden
from tests.support.deployments import TurnedClock

# Each with the hours that pass before it.
JOBS = (("snapshot-expiry", 0), ("physical-deletion", 2), ("manifest-rewrite", 0), ("orphan-cleanup", 0))


def main(config: str) -> None:
    clock = TurnedClock()
    real = clocks.skew

    def skew(stores: Any, place: str, worker: str, asked: Any) -> timedelta:
        return real(stores, place, worker, asked) + clock.passed

    clocks.skew = skew
    with open_warden(config, clock=clock) as warden:
        # On S3 no file can be made old: the cut-off is now, which is accepted for tables that are named.
        uuids = [table["uuid"] for table in warden.tables()]
        for job, hours in JOBS:
            clock.passed += timedelta(hours=hours)
            plan = warden.plan(job, unsafe_short_grace=uuids)
            refused = [f"{table.identifier}: {table.refusal.message}" for table in plan.plan.tables if table.refusal]
            run = warden.apply(plan)
            told = {"changed": dict(run.changed), "deleted": run.deleted.files, "failed": len(run.failed)}
            print(json.dumps({"job": job, "refused": refused, "status": str(run.status), **told}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
