"""The keys of `[physical_deletion]`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

from pydantic import Field

from lakewarden.model.margins import MARGINS
from lakewarden.steps.section import CronLine, Floor, JobSection


class PhysicalDeletion(JobSection):
    floors: ClassVar[Mapping[str, Floor]] = {
        "visibility_delay_hours": Floor(
            MARGINS.visibility_floor, "queries that are reading an expired snapshot would fail"
        )
    }

    cron: CronLine | None = "0 4 * * *"
    visibility_delay_hours: float = Field(default=24, ge=0, le=24 * 3650)
    batch_size: int = Field(default=1000, ge=1, le=100_000)
    max_concurrent_deletions: int = Field(default=10, ge=1, le=1000)
    rate_limit_ms: int = Field(default=100, ge=0, le=60_000)
    delete_mode: Literal["remove", "quarantine"] = "remove"
    quarantine_days: int = Field(default=7, ge=1, le=3650)
    require_cold_copy: bool = False
