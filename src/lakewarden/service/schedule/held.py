"""Which jobs may not begin by themselves now: their window is closed, or somebody froze the deployment."""

from __future__ import annotations

from datetime import datetime

from lakewarden.jobs.registry import JOBS
from lakewarden.ledger.switches import Freeze
from lakewarden.model.windows import opens, windows_of
from lakewarden.service.schedule.slots import DRILL
from lakewarden.settings import Settings
from lakewarden.settings.sections import ALL_JOBS


def held_jobs(settings: Settings, frozen: Freeze | None, now: datetime) -> frozenset[str]:
    """The jobs of which nothing that the schedule has asked for is taken up at this moment.

    What was due in its window may have waited behind another run until the window closed. What is taken up while frozen
    would be refused, and with it whatever comes after it on that day.
    """
    windows = settings.service.windows
    if frozen is not None:
        return frozenset({DRILL, *(str(spec.name) for spec in JOBS.values())})
    texts = {str(spec.name): windows.get(spec.section, windows.get(ALL_JOBS)) for spec in JOBS.values()}
    texts[DRILL] = windows.get(ALL_JOBS)
    return frozenset(job for job, text in texts.items() if text and opens(windows_of(text), now) > now)
