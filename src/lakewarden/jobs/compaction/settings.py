"""The keys of `[compaction]`."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from lakewarden.model.lease import LONGEST_LEASE_SECONDS
from lakewarden.steps.section import CronLine, JobSection


class Compaction(JobSection):
    """Without a target of its own, a table's write.target-file-size-bytes counts."""

    section_only: ClassVar[frozenset[str]] = frozenset(
        {"max_bytes_per_run", "bandwidth_share", "rate_bytes_per_second"}
    )

    cron: CronLine | None = "0 1 * * *"
    target_file_size_bytes: int | None = Field(default=None, ge=1 << 20)
    strategy: Literal["binpack", "sort", "zorder"] = "binpack"
    zorder_columns: str = ""
    min_input_files: int = Field(default=5, ge=2)
    many_deletes: int = Field(default=10, ge=1)
    settle_minutes: int = Field(default=30, ge=0)
    branch: str = Field(default="main", min_length=1)
    max_bytes_per_run: int = Field(default=0, ge=0)
    bandwidth_share: float = Field(default=0.3, gt=0, le=1)
    rate_bytes_per_second: int = Field(default=0, ge=0)
    lease_ttl_seconds: int = Field(default=300, ge=60, le=LONGEST_LEASE_SECONDS)
