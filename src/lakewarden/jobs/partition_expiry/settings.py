"""The keys of `[partition_expiry]`."""

from __future__ import annotations

from typing import Literal
from zoneinfo import ZoneInfo

from pydantic import Field, field_validator

from lakewarden.model.errors import ConfigError
from lakewarden.model.partition_times import time_form
from lakewarden.steps.section import CronLine, JobSection


class PartitionExpiry(JobSection):
    """Keys without a value leave the matter to the table's own options."""

    cron: CronLine | None = "30 0 * * *"
    expiration_hours: float | None = Field(default=None, ge=1, le=24 * 36500)
    strategy: Literal["values-time", "update-time"] | None = None
    timestamp_formatter: str | None = Field(default=None, min_length=1)
    timestamp_pattern: str | None = Field(default=None, min_length=1)
    max_partitions: int | None = Field(default=None, ge=1)
    batch_size: int | None = Field(default=None, ge=1)
    time_zone: str = "UTC"
    max_drop_share: float = Field(default=0.5, ge=0, le=1)

    @field_validator("timestamp_formatter")
    @classmethod
    def _known_letters(cls, text: str | None) -> str | None:
        try:
            time_form(text)
        except ConfigError as error:
            why = error.message.rpartition("; ")[0]  # without what is said of one table
            raise ValueError(f"cannot be used: {why}. {error.hint}") from None
        return text

    @field_validator("time_zone")
    @classmethod
    def _known_zone(cls, text: str) -> str:
        try:
            ZoneInfo(text)
        except (KeyError, ValueError, OSError):  # unknown; not a name at all; a directory of names
            raise ValueError('is not a time zone; write a name such as "UTC" or "Europe/Berlin"') from None
        return text
