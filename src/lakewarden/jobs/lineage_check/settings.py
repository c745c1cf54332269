"""The keys of `[lineage_check]`."""

from __future__ import annotations

from pydantic import Field

from lakewarden.steps.section import CronLine, JobSection


class LineageCheck(JobSection):
    # It changes no table, so there is nothing to hold back.
    dry_run: bool = False
    cron: CronLine | None = "0 0 * * *"
    since_hours: float = Field(default=0.0, ge=0)
