"""When each job is due next and why, and what came of the last time."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from lakewarden.jobs.registry import JOBS
from lakewarden.ledger.schedules import Schedule
from lakewarden.model.policy import Job
from lakewarden.model.service import RequestKind
from lakewarden.service.access import Asked, Viewer
from lakewarden.service.html.page import page
from lakewarden.service.schedule.slots import DRILL, enabled_by_settings
from lakewarden.service.schedule.tick import OBSERVE
from lakewarden.service.service import Service
from lakewarden.settings.sections import ALL_JOBS

router = APIRouter(include_in_schema=False)


@router.get("/schedule")
def show(request: Request, service: Asked, user: Viewer) -> Response:
    known = {one.job: one for one in service.ledger.schedules.list()}
    # As the ledger has them, the next one first; then the jobs that the schedule never heard of.
    order = [*known, *(str(job) for job in JOBS if str(job) not in known)]
    rows = [_row(service, Job(job), known.get(job)) for job in order if job in list(JOBS)]
    content = {
        "heading": "Schedule",
        "due": [row for row in rows if row["known"] and row["known"].next_due],
        "idle": [row for row in rows if not row["known"] or not row["known"].next_due],
        "look": known.get(OBSERVE),
        "drill": known.get(DRILL),
        "drilled": next(iter(service.ledger.requests.list(kind=RequestKind.RESTORE_DRILL, limit=1)), None),
        "on": service.section.schedule,
    }
    return page(request, service, user, "schedule.html", content, here="/schedule")


def _row(service: Service, job: Job, known: Schedule | None) -> dict[str, Any]:
    """One job: when and why, what it may do by itself, and what came of the last time that somebody asked for a run."""
    section, windows = service.settings.job(job), service.section.windows
    asked = service.ledger.requests.list(kind=RequestKind.RUN, job=str(job), limit=1)
    may = "plan only" if section.dry_run else "plan and apply"
    if not section.dry_run and getattr(section, "approval", False):
        may += ", once an approver agrees"
    return {
        "job": str(job),
        "section": job.section,
        "does": JOBS[job].does,
        "known": known,
        "enabled": str(job) in enabled_by_settings(service.settings) or bool(known and known.next_due),
        "cron": section.cron,
        "may": may,
        "window": windows.get(job.section, windows.get(ALL_JOBS)),
        "last": asked[0] if asked else None,
    }
