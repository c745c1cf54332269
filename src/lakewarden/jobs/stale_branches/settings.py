"""The keys of `[stale_branches]`."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from lakewarden.steps.section import CronLine, JobSection

Removable = Literal["broken", "detached", "inactive"]
BROKEN_ONLY: tuple[Removable, ...] = ("broken",)


class StaleBranches(JobSection):
    """`remove` names the states whose branches go; `inactive_days` says what inactive is, and nothing is without it."""

    cron: CronLine | None = "0 0 * * *"
    remove: list[Removable] = Field(default_factory=lambda: list(BROKEN_ONLY))
    protect: list[str] = Field(default_factory=list)
    inactive_days: float | None = Field(default=None, ge=1, le=36500)
    min_age_hours: float = Field(default=24, ge=0, le=24 * 3650)
    max_remove_share: float = Field(default=0.5, ge=0, le=1)

    @model_validator(mode="after")
    def _days_of_inactive(self) -> StaleBranches:
        if "inactive" in self.remove and self.inactive_days is None:
            raise ValueError('has "inactive" in remove and no inactive_days, so it is not said what inactive is')
        return self
