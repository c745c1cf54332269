"""The keys of `[tier_handoff]`."""

from __future__ import annotations

from pydantic import Field, field_validator

from lakewarden.steps.section import CronLine, JobSection, address


class TierHandoff(JobSection):
    """Without a destination, a table's expired snapshots are not copied."""

    cron: CronLine | None = "0 2 * * *"
    destination: str | None = Field(default=None, min_length=1)
    storage_class: str | None = Field(default=None, min_length=1)
    tags: dict[str, str] = Field(default_factory=dict)
    max_megabytes_per_second: float | None = Field(default=None, gt=0)
    max_concurrent_copies: int = Field(default=10, ge=1, le=1000)

    @field_validator("destination")
    @classmethod
    def _is_address(cls, text: str | None) -> str | None:
        return None if text is None else address(text)
