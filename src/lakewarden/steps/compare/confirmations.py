"""What a scheduled plan is confirmed against: earlier plans, each a margin before the next.

A file that one faulty look calls an orphan should not go; so it has to be one in as many plans in a row as its table's
policy says, this one included.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from lakewarden.ledger.plans import SavedPlan
from lakewarden.model.policy import Job, OrphanPolicy
from lakewarden.steps.deployment import Deployment
from lakewarden.storage.copying import sizes_at

_JUST_BEFORE = timedelta(microseconds=1)


def earlier_plans(deployment: Deployment, policies: Iterable[OrphanPolicy], now: datetime) -> list[list[str]]:
    """The files of the plans that count as sightings, newest plan first: as many as the strictest policy asks for.

    Fewer where there are no more, or where one is no longer whole: then nothing is confirmed by it or any before it.
    """
    strictest = list(policies)
    margin = max((policy.margin for policy in strictest), default=timedelta())
    wanted = max((policy.confirmations for policy in strictest), default=1) - 1
    found: list[list[str]] = []
    instant = now - margin
    while len(found) < wanted:
        plan = deployment.ledger.plans.newest_before(Job.ORPHAN_CLEANUP, instant)
        files = _files(deployment, plan) if plan is not None else []
        if plan is None or plan.created_at is None or not files:
            break
        found.append(files)
        instant = plan.created_at - max(margin, _JUST_BEFORE)
    return found


def _files(deployment: Deployment, plan: SavedPlan) -> list[str]:
    """The addresses of a plan's files; none if it has none, or has lost one."""
    header = deployment.ledger.plans.header(plan.plan_id)
    if header is None or not plan.path:
        return []
    files = [plan.path + part.name for part in header.parts]
    whole = sizes_at(deployment.stores, files) == [part.bytes for part in header.parts]
    return files if whole else []
