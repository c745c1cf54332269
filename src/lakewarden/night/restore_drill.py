"""The restore drill: a quarantined file and a cold snapshot are brought back, unattended, where no table is harmed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from lakewarden.jobs.tier_handoff.drill import cold_choice, drill_cold
from lakewarden.ledger.lease import Lease
from lakewarden.model.drill import Drill, DrillPlace, DrillResult, DrillStatus
from lakewarden.model.errors import LakewardenError
from lakewarden.model.margins import MARGINS
from lakewarden.model.ports import Progress
from lakewarden.steps.apply.drill import DRILL, drill_place, drill_quarantine
from lakewarden.steps.apply.guard import check_frozen
from lakewarden.steps.deployment import Deployment


def restore_drill(deployment: Deployment, max_megabytes: int, progress: Progress) -> DrillResult:
    """Try everything that can be tried; what failed and what came back is counted. Raises where no drill can be made:
    FrozenError, LeaseHeldError where another is at it, and whatever its place in the state refuses."""
    check_frozen(deployment, "no drill was made")
    with deployment.leases.acquire(f"drill/{DRILL}", MARGINS.lease_seconds) as lease:
        with drill_place(deployment, lease) as place:
            found = DrillResult(tuple(_drills(deployment, place, lease, max_megabytes << 20, progress)))
        for one in found.drills:
            if one.status is not DrillStatus.UNTRIED:
                deployment.ledger.metrics.drilled(str(one.place), came_back=one.status is DrillStatus.PROVEN)
    return found


def _drills(deployment: Deployment, place: str, lease: Lease, most: int, progress: Progress) -> Iterator[Drill]:
    progress("drill", 0, 2)
    yield _tried(DrillPlace.QUARANTINE, "a quarantined file", lambda: drill_quarantine(deployment, place, lease, most))
    progress("drill", 1, 2)
    chosen = list(cold_choice(deployment, deployment.clock.now()))
    if not chosen:
        yield Drill(DrillPlace.COLD, DrillStatus.UNTRIED, "nothing has been handed to a cold tier")
    for number, snapshot in enumerate(chosen):
        what = f"snapshot {snapshot.snapshot_id} of {snapshot.table_name}"
        brought = partial(drill_cold, deployment, snapshot, f"{place}cold/{number}/", most, progress)
        yield _tried(DrillPlace.COLD, what, brought)
    progress("drill", 2, 2)


def _tried(place: DrillPlace, what: str, drill: Callable[[], Drill]) -> Drill:
    """What came of one drill: its failure is told beside the others, and ends none of them."""
    try:
        return drill()
    except LakewardenError as error:
        told = {"code": error.code, "message": error.message, "hint": error.hint}
        return Drill(place, DrillStatus.FAILED, what, error=told)
