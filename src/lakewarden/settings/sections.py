"""The sections of the configuration file, key by key."""

from __future__ import annotations

import posixpath
import re
import socket
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal
from zoneinfo import ZoneInfo

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator

from lakewarden.formats.registry import format_names, is_format_name
from lakewarden.model.policy import FLOORS, Job
from lakewarden.model.redaction import redact
from lakewarden.model.uri import SCHEME_CLASSES, FileUri

_CRON_FIELD = re.compile(r"^[0-9A-Za-z*/,\-]+$")


class Section(BaseModel):
    """Strict: a string is not a number, and a key nobody knows is an error."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({redact(self.model_dump())})"

    __str__ = __repr__


def flat(value: Any) -> Any:
    """Dotted names as users mean them: TOML reads an unquoted `a.b = 1` as a table in a table."""
    if not isinstance(value, dict):
        return value
    names: dict[str, Any] = {}
    for key, item in value.items():
        inner = flat(item)
        names.update({f"{key}.{k}": v for k, v in inner.items()} if isinstance(inner, dict) else {key: inner})
    return names


Scalar = str | bool | int | float
Properties = Annotated[dict[str, Scalar], BeforeValidator(flat)]


def _place(text: str) -> str:
    """An absolute path or an address, as an address. Raises ValueError."""
    if not text.startswith("/") and "://" not in text:
        raise ValueError(
            "must be an absolute path or an address such as file:///var/lib/lakewarden or s3://bucket/state"
        )
    if text.startswith("/"):
        return f"file://{posixpath.normpath(text)}"
    try:
        uri = FileUri.parse(text)
    except ValueError:
        raise ValueError("is not an address; write file:///path or s3://bucket/prefix") from None
    if uri.scheme not in SCHEME_CLASSES.values():
        raise ValueError(f"has a scheme nobody knows; allowed: {', '.join(sorted(set(SCHEME_CLASSES.values())))}")
    return text


class Worker(Section):
    id: str = Field(default_factory=socket.gethostname, min_length=1)


class State(Section):
    location: str = Field(default_factory=lambda: Path.cwd().joinpath(".lakewarden").as_uri())
    database: str = "sqlite"

    @field_validator("location")
    @classmethod
    def _absolute(cls, text: str) -> str:
        # A relative place would move with the directory a command is started in, and two commands of one
        # deployment would not see each other's leases.
        return _place(text)

    @field_validator("database")
    @classmethod
    def _known_database(cls, text: str) -> str:
        known = text == "sqlite" or text.startswith(("sqlite:///", "postgresql://", "postgresql+psycopg://"))
        if not known:
            raise ValueError('allowed: "sqlite", "sqlite:///path/to/file.db", "postgresql://…"')
        return text

    @property
    def local_path(self) -> Path | None:
        """The directory of a state location on this machine's disk."""
        uri = FileUri.parse(self.location)
        return Path("/" + uri.key) if uri.scheme == "file" else None

    @property
    def database_url(self) -> str:
        """The address for the database driver, with "sqlite" spelled out."""
        if self.database != "sqlite":
            return self.database
        return f"sqlite:///{self.local_path}/lakewarden.db"


class Spark(Section):
    master: str = "local[*]"
    conf: Properties = Field(default_factory=dict)

    @property
    def conf_strings(self) -> dict[str, str]:
        """Spark's own spelling: everything is text, and truth is lower case."""
        return {k: str(v).lower() if isinstance(v, bool) else str(v) for k, v in self.conf.items()}


class CatalogSection(Section):
    """`format` is one of those that come with this version, or a module of somebody else's by its dotted path."""

    format: str = Field(examples=list(format_names()))
    properties: Properties = Field(default_factory=dict)

    @field_validator("format")
    @classmethod
    def _known_format(cls, name: str) -> str:
        if not is_format_name(name):
            raise ValueError(
                f"is not allowed; allowed: {' or '.join(repr(n) for n in format_names())}".replace("'", '"')
            )
        return name


class JobSection(Section):
    """What every job has. `dry_run` stops `run` and the schedule after the plan."""

    section_only: ClassVar[frozenset[str]] = frozenset()

    enabled: bool = False
    dry_run: bool = True
    cron: str | None = None

    @field_validator("cron")
    @classmethod
    def _five_fields(cls, text: str | None) -> str | None:
        fields = text.split() if text is not None else ["*"] * 5
        if len(fields) != 5 or not all(_CRON_FIELD.match(field) for field in fields):
            raise ValueError('must have five fields: minute hour day month weekday, such as "0 6 * * *"')
        return text


class OrphanCleanup(JobSection):
    section_only: ClassVar[frozenset[str]] = frozenset({"inventory"})

    cron: str | None = "0 6 * * *"
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

    def below_floor(self) -> bool:
        return self.grace_period_hours * 3600 < FLOORS.grace.total_seconds()


class SnapshotExpiry(JobSection):
    """Keys without a value leave the matter to the table's own options."""

    cron: str | None = "0 0 * * *"
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


class PhysicalDeletion(JobSection):
    cron: str | None = "0 4 * * *"
    visibility_delay_hours: float = Field(default=24, ge=0, le=24 * 3650)
    batch_size: int = Field(default=1000, ge=1, le=100_000)
    max_concurrent_deletions: int = Field(default=10, ge=1, le=1000)
    rate_limit_ms: int = Field(default=100, ge=0, le=60_000)
    delete_mode: Literal["remove", "quarantine"] = "remove"
    quarantine_days: int = Field(default=7, ge=1, le=3650)
    require_cold_copy: bool = False

    def below_floor(self) -> bool:
        return self.visibility_delay_hours * 3600 < FLOORS.visibility.total_seconds()


class PartitionExpiry(JobSection):
    """Keys without a value leave the matter to the table's own options."""

    cron: str | None = "30 0 * * *"
    expiration_hours: float | None = Field(default=None, ge=1, le=24 * 36500)
    strategy: Literal["values-time", "update-time"] | None = None
    timestamp_formatter: str | None = Field(default=None, min_length=1)
    timestamp_pattern: str | None = Field(default=None, min_length=1)
    max_partitions: int | None = Field(default=None, ge=1)
    batch_size: int | None = Field(default=None, ge=1)
    time_zone: str = "UTC"

    @field_validator("time_zone")
    @classmethod
    def _known_zone(cls, text: str) -> str:
        try:
            ZoneInfo(text)
        except (KeyError, ValueError, OSError):  # unknown; not a name at all; a directory of names
            raise ValueError('is not a time zone; write a name such as "UTC" or "Europe/Berlin"') from None
        return text


class TierHandoff(JobSection):
    """Without a destination, a table's expired snapshots are not copied."""

    cron: str | None = "0 2 * * *"
    destination: str | None = Field(default=None, min_length=1)
    storage_class: str | None = Field(default=None, min_length=1)
    tags: dict[str, str] = Field(default_factory=dict)
    max_megabytes_per_second: float | None = Field(default=None, gt=0)
    max_concurrent_copies: int = Field(default=10, ge=1, le=1000)

    @field_validator("destination")
    @classmethod
    def _is_address(cls, text: str | None) -> str | None:
        return None if text is None else _place(text)


class ManifestRewrite(JobSection):
    cron: str | None = "0 2 * * 0"
    min_manifests: int = Field(default=10, ge=2)
    min_gain: float = Field(default=0.3, ge=0, le=1)


_TYPED: dict[Job, type[JobSection]] = {
    Job.ORPHAN_CLEANUP: OrphanCleanup,
    Job.SNAPSHOT_EXPIRY: SnapshotExpiry,
    Job.PHYSICAL_DELETION: PhysicalDeletion,
    Job.PARTITION_EXPIRY: PartitionExpiry,
    Job.TIER_HANDOFF: TierHandoff,
    Job.MANIFEST_REWRITE: ManifestRewrite,
}
SECTIONS: dict[str, type[JobSection]] = {job.section: _TYPED.get(job, JobSection) for job in Job}


def without_effect(section: str, given: JobSection) -> list[str]:
    """Warnings for keys that are accepted and change nothing: safety is not a switch."""
    if not isinstance(given, OrphanCleanup):
        return []
    warnings = []
    if not given.revalidate_before_delete:
        warnings.append(f"{section}.revalidate_before_delete = false has no effect: every batch is validated again")
    if "max_snapshot_age_hours" in given.model_fields_set:
        warnings.append(
            f"{section}.max_snapshot_age_hours has no effect: every snapshot protects its files, whatever its age"
        )
    return warnings
