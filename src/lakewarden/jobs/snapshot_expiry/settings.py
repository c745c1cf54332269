"""The keys of `[snapshot_expiry]`."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from lakewarden.steps.section import CronLine, JobSection


class SnapshotExpiry(JobSection):
    """Keys without a value leave the matter to the table's own options."""

    cron: CronLine | None = "0 0 * * *"
    retain_min: int | None = Field(default=None, ge=1)
    retain_max: int | None = Field(default=None, ge=1)
    retain_hours: float | None = Field(default=None, ge=0, le=24 * 3650)
    max_expire: int | None = Field(default=None, ge=1)
    age_rule: Literal["successor", "own"] = "successor"
    keep: list[str] = Field(default_factory=list)
    max_ref_age_hours: float | None = Field(default=None, ge=0, le=24 * 36500)
    expire_ids: list[int] = Field(default_factory=list)
    flink_checkpoint_hours: float = Field(default=720, ge=0, le=24 * 3650)

    @model_validator(mode="after")
    def _some_are_left(self) -> SnapshotExpiry:
        if self.retain_min is not None and self.retain_max is not None and self.retain_max < self.retain_min:
            raise ValueError(f"has retain_max = {self.retain_max} below retain_min = {self.retain_min}")
        return self
