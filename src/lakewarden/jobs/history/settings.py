"""The keys of `[history]`."""

from __future__ import annotations

from pydantic import Field

from lakewarden.steps.section import CronLine, JobSection


class History(JobSection):
    """`required`: expiry keeps what is not archived, also where the schedule leaves this job alone."""

    cron: CronLine | None = "0 0 * * *"
    required: bool = False
    metadata_previous_versions_max: int | None = Field(default=None, ge=1)
