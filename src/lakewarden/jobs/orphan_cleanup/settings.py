"""The keys of `[orphan_cleanup]`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

from pydantic import Field

from lakewarden.model.margins import MARGINS
from lakewarden.steps.section import CronLine, Floor, JobSection


class OrphanCleanup(JobSection):
    section_only: ClassVar[frozenset[str]] = frozenset({"inventory"})
    floors: ClassVar[Mapping[str, Floor]] = {
        "grace_period_hours": Floor(
            MARGINS.grace_floor, "files of writers that have not committed yet would be deleted"
        )
    }

    cron: CronLine | None = "0 6 * * *"
    grace_period_hours: int = Field(default=168, ge=0, le=24 * 3650)
    cleanup_interval_hours: int = Field(default=24, ge=1)
    batch_size: int = Field(default=1000, ge=1, le=100_000)
    max_concurrent_deletions: int = Field(default=10, ge=1, le=1000)
    rate_limit_ms: int = Field(default=100, ge=0, le=60_000)
    delete_mode: Literal["remove", "quarantine"] = "remove"
    quarantine_days: int = Field(default=7, ge=1, le=3650)
    confirmations: int = Field(default=2, ge=1, le=10)
    confirmation_margin_hours: int = Field(default=4, ge=0, le=24 * 365)
    max_orphan_share: float = Field(default=0.25, ge=0, le=1)
    max_orphans: int = Field(default=1_000_000, ge=1)
    revalidate_before_delete: bool = True
    max_snapshot_age_hours: int = Field(default=720, ge=0)
    inventory: dict[str, str] = Field(default_factory=dict)

    def without_effect(self) -> list[str]:
        found = []
        if not self.revalidate_before_delete:
            found.append("revalidate_before_delete = false has no effect: every batch is validated again")
        if "max_snapshot_age_hours" in self.model_fields_set:
            found.append("max_snapshot_age_hours has no effect: every snapshot protects its files, whatever its age")
        return found
