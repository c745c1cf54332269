"""The jobs by name, and what a table's policy lets each of them do."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, NamedTuple

from lakewarden.model.history import Archived


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


class DeleteMode(StrEnum):
    REMOVE = "remove"
    QUARANTINE = "quarantine"


def mode_of(policies: Iterable[Mapping[str, Any]]) -> DeleteMode:
    """Quarantine for all where one table wants it: the wider scope is the safer one."""
    wanted = {DeleteMode(policy["delete_mode"]) for policy in policies if "delete_mode" in policy}
    return DeleteMode.QUARANTINE if DeleteMode.QUARANTINE in wanted else DeleteMode.REMOVE


class AgeRule(StrEnum):
    """Whose age decides whether a snapshot may go: the next one's (since when it is history), or its own."""

    SUCCESSOR = "successor"
    OWN = "own"


class PartitionStrategy(StrEnum):
    """What a partition's age is: the time its values spell, or when a file was last added to it."""

    VALUES_TIME = "values-time"
    UPDATE_TIME = "update-time"


class Provenance(NamedTuple):
    """A value in effect, and the place that set it."""

    value: Any
    source: str


@dataclass(frozen=True, slots=True)
class OrphanPolicy:
    """What orphan cleanup may do to one table."""

    enabled: bool
    dry_run: bool
    grace: timedelta
    batch_size: int
    concurrency: int
    rate_limit: timedelta
    delete_mode: DeleteMode
    quarantine_days: int
    confirmations: int
    margin: timedelta
    max_orphan_share: float
    max_orphans: int

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


@dataclass(frozen=True, slots=True)
class ExpiryPolicy:
    """Which snapshots of one table may go. None leaves the matter to the table's own options."""

    enabled: bool
    dry_run: bool
    retain_min: int | None
    retain_max: int | None
    retain: timedelta | None
    max_expire: int | None
    age_rule: AgeRule
    keep: tuple[str, ...]
    max_ref_age: timedelta | None
    expire_ids: tuple[int, ...]
    flink_checkpoint: timedelta
    in_use_since: datetime | None = None  # when the oldest work in progress on the table began
    in_use_snapshots: Collection[int] = ()  # what files are being rewritten from
    archived: Archived | None = None  # what may go because history has it; None: history is not asked

    @staticmethod
    def of(values: Mapping[str, Any]) -> ExpiryPolicy:
        """The policy that these values of `[snapshot_expiry]` spell, under the user's names and units."""
        return ExpiryPolicy(
            enabled=values["enabled"],
            dry_run=values["dry_run"],
            retain_min=values["retain_min"],
            retain_max=values["retain_max"],
            retain=_hours(values["retain_hours"]),
            max_expire=values["max_expire"],
            age_rule=AgeRule(values["age_rule"]),
            keep=tuple(values["keep"]),
            max_ref_age=_hours(values["max_ref_age_hours"]),
            expire_ids=tuple(values["expire_ids"]),
            flink_checkpoint=timedelta(hours=values["flink_checkpoint_hours"]),
        )

    def as_values(self) -> dict[str, Any]:
        """The policy under the user's names and units, as a plan records it."""
        return {
            "dry_run": self.dry_run,
            "retain_min": self.retain_min,
            "retain_max": self.retain_max,
            "retain_hours": _in_hours(self.retain),
            "max_expire": self.max_expire,
            "age_rule": str(self.age_rule),
            "keep": list(self.keep),
            "max_ref_age_hours": _in_hours(self.max_ref_age),
            "expire_ids": list(self.expire_ids),
            "flink_checkpoint_hours": _in_hours(self.flink_checkpoint),
        }


@dataclass(frozen=True, slots=True)
class DeletionPolicy:
    """What physical deletion may do with the files that expiry released from one table."""

    enabled: bool
    dry_run: bool
    visibility_delay: timedelta
    batch_size: int
    concurrency: int
    rate_limit: timedelta
    delete_mode: DeleteMode
    quarantine_days: int
    require_cold_copy: bool

    @staticmethod
    def of(values: Mapping[str, Any]) -> DeletionPolicy:
        """The policy that these values of `[physical_deletion]` spell, under the user's names and units."""
        return DeletionPolicy(
            enabled=values["enabled"],
            dry_run=values["dry_run"],
            visibility_delay=timedelta(hours=values["visibility_delay_hours"]),
            batch_size=values["batch_size"],
            concurrency=values["max_concurrent_deletions"],
            rate_limit=timedelta(milliseconds=values["rate_limit_ms"]),
            delete_mode=DeleteMode(values["delete_mode"]),
            quarantine_days=values["quarantine_days"],
            require_cold_copy=values["require_cold_copy"],
        )

    def as_values(self) -> dict[str, Any]:
        """The policy under the user's names and units, as a plan records it."""
        return {
            "dry_run": self.dry_run,
            "visibility_delay_hours": _in_hours(self.visibility_delay),
            "batch_size": self.batch_size,
            "max_concurrent_deletions": self.concurrency,
            "rate_limit_ms": round(self.rate_limit / timedelta(milliseconds=1)),
            "delete_mode": str(self.delete_mode),
            "quarantine_days": self.quarantine_days,
            "require_cold_copy": self.require_cold_copy,
        }


@dataclass(frozen=True, slots=True)
class PartitionPolicy:
    """Which partitions of one table may go. None leaves the matter to the table's own options."""

    enabled: bool
    dry_run: bool
    expiration: timedelta | None
    strategy: PartitionStrategy | None
    timestamp_formatter: str | None
    timestamp_pattern: str | None
    max_partitions: int | None
    batch_size: int | None
    time_zone: str
    max_drop_share: float

    @staticmethod
    def of(values: Mapping[str, Any]) -> PartitionPolicy:
        """The policy that these values of `[partition_expiry]` spell, under the user's names and units."""
        strategy = values["strategy"]
        return PartitionPolicy(
            enabled=values["enabled"],
            dry_run=values["dry_run"],
            expiration=_hours(values["expiration_hours"]),
            strategy=None if strategy is None else PartitionStrategy(strategy),
            timestamp_formatter=values["timestamp_formatter"],
            timestamp_pattern=values["timestamp_pattern"],
            max_partitions=values["max_partitions"],
            batch_size=values["batch_size"],
            time_zone=values["time_zone"],
            max_drop_share=values["max_drop_share"],
        )

    def as_values(self) -> dict[str, Any]:
        """The policy under the user's names and units, as a plan records it."""
        return {
            "dry_run": self.dry_run,
            "expiration_hours": _in_hours(self.expiration),
            "strategy": None if self.strategy is None else str(self.strategy),
            "timestamp_formatter": self.timestamp_formatter,
            "timestamp_pattern": self.timestamp_pattern,
            "max_partitions": self.max_partitions,
            "batch_size": self.batch_size,
            "time_zone": self.time_zone,
            "max_drop_share": self.max_drop_share,
        }


def _hours(number: float | None) -> timedelta | None:
    return None if number is None else timedelta(hours=number)


def _in_hours(length: timedelta | None) -> float | None:
    """Hours as a user writes them: whole ones without a fraction."""
    if length is None:
        return None
    hours = length / timedelta(hours=1)
    return round(hours) if hours == round(hours) else hours
