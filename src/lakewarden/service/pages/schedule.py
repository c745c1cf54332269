"""When each job is due next and why, and what came of the last time."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import Response

from lakewarden.jobs.registry import JOBS
from lakewarden.model.policy import Job
from lakewarden.service.access import Asked, Viewer
from lakewarden.service.html.page import page
from lakewarden.service.service import Service

router = APIRouter(include_in_schema=False)


@router.get("/schedule")
def show(request: Request, service: Asked, user: Viewer) -> Response:
    known = {one.job: one for one in service.ledger.schedules.list()}
    # As the ledger has them, the next one first; then the jobs that the schedule never heard of.
    order = [*known, *(str(job) for job in JOBS if str(job) not in known)]
    rows = [
        {"job": job, "does": JOBS[Job(job)].does, "known": known.get(job), **_section(service, Job(job))}
        for job in order
        if job in list(JOBS)
    ]
    content = {
        "heading": "Schedule",
        "rows": rows,
        "on": service.section.schedule,
        "windows": service.section.windows,
    }
    return page(request, service, user, "schedule.html", content, here="/schedule")


def _section(service: Service, job: Job) -> dict[str, object]:
    section = getattr(service.settings, job.section)
    return {
        "enabled": section.enabled,
        "dry_run": section.dry_run,
        "cron": section.cron,
        "approval": getattr(section, "approval", False),
    }
