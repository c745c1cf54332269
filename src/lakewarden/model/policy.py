"""The jobs by name, and what a table's policy lets orphan cleanup do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from difflib import get_close_matches
from enum import StrEnum
from typing import Any, NamedTuple

from lakewarden.model.errors import UsageError


class Job(StrEnum):
    """One name a job, everywhere; its configuration section is the same with underscores."""

    ORPHAN_CLEANUP = "orphan-cleanup"
    SNAPSHOT_EXPIRY = "snapshot-expiry"
    PHYSICAL_DELETION = "physical-deletion"
    PARTITION_EXPIRY = "partition-expiry"
    TIER_HANDOFF = "tier-handoff"
    COMPACTION = "compaction"
    MANIFEST_REWRITE = "manifest-rewrite"
    STALE_BRANCHES = "stale-branches"
    HISTORY = "history"
    LINEAGE_CHECK = "lineage-check"

    @property
    def section(self) -> str:
        return self.value.replace("-", "_")


JOB_ALIASES = {"orphans": Job.ORPHAN_CLEANUP}
RUNNABLE_JOBS = (Job.ORPHAN_CLEANUP,)


def job_named(name: str) -> Job:
    """The job of that name or alias. Raises UsageError for any that cannot be run."""
    job = JOB_ALIASES.get(name) or next((job for job in RUNNABLE_JOBS if job == name), None)
    if job is not None:
        return job
    names = [*RUNNABLE_JOBS, *JOB_ALIASES]
    close = get_close_matches(name, names, 1)
    guess = f"; did you mean {close[0]}?" if close else ""
    raise UsageError(f"there is no job {name!r} to run{guess}", hint=f"Jobs: {', '.join(names)}.")


class DeleteMode(StrEnum):
    REMOVE = "remove"
    QUARANTINE = "quarantine"


@dataclass(frozen=True, slots=True)
class SafetyFloors:
    """The margins that configuration cannot go below, each for one hazard."""

    # A job that writes files now and commits them hours later must not lose them in between.
    grace: timedelta = timedelta(hours=24)


FLOORS = SafetyFloors()


class Provenance(NamedTuple):
    """A value in effect, and the place that set it."""

    value: Any
    source: str


@dataclass(frozen=True, slots=True)
class OrphanPolicy:
    """What orphan cleanup may do to one table."""

    enabled: bool = False
    dry_run: bool = True
    grace: timedelta = timedelta(hours=168)
    batch_size: int = 1000
    concurrency: int = 10
    rate_limit: timedelta = timedelta(milliseconds=100)
    delete_mode: DeleteMode = DeleteMode.REMOVE
    quarantine_days: int = 7
    confirmations: int = 2
    margin: timedelta = timedelta(hours=4)
    max_orphan_share: float = 0.25
    max_orphans: int = 1_000_000

    @staticmethod
    def of(values: Mapping[str, Any]) -> OrphanPolicy:
        """The policy that these values of `[orphan_cleanup]` spell, under the user's names and units."""
        return OrphanPolicy(
            enabled=values["enabled"],
            dry_run=values["dry_run"],
            grace=timedelta(hours=values["grace_period_hours"]),
            batch_size=values["batch_size"],
            concurrency=values["max_concurrent_deletions"],
            rate_limit=timedelta(milliseconds=values["rate_limit_ms"]),
            delete_mode=DeleteMode(values["delete_mode"]),
            quarantine_days=values["quarantine_days"],
            confirmations=values["confirmations"],
            margin=timedelta(hours=values["confirmation_margin_hours"]),
            max_orphan_share=values["max_orphan_share"],
            max_orphans=values["max_orphans"],
        )

    def as_values(self) -> dict[str, Any]:
        """The policy under the user's names and units, as a plan records it."""
        return {
            "grace_period_hours": round(self.grace / timedelta(hours=1)),
            "dry_run": self.dry_run,
            "batch_size": self.batch_size,
            "max_concurrent_deletions": self.concurrency,
            "rate_limit_ms": round(self.rate_limit / timedelta(milliseconds=1)),
            "delete_mode": str(self.delete_mode),
            "quarantine_days": self.quarantine_days,
            "confirmations": self.confirmations,
            "max_orphan_share": self.max_orphan_share,
            "max_orphans": self.max_orphans,
        }
