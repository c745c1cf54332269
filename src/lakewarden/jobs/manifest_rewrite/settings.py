"""The keys of `[manifest_rewrite]`."""

from __future__ import annotations

from pydantic import Field

from lakewarden.steps.section import CronLine, JobSection


class ManifestRewrite(JobSection):
    cron: CronLine | None = "0 2 * * 0"
    min_manifests: int = Field(default=10, ge=2)
    min_gain: float = Field(default=0.3, ge=0, le=1)
