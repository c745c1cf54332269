"""What the ledger stores: one table a subject, the same on SQLite and PostgreSQL.

Names carry a prefix, so that a database shared with a catalog or another tool never collides.
"""

from __future__ import annotations

from datetime import UTC, datetime

from sqlalchemy import (
    JSON,
    TIMESTAMP,
    BigInteger,
    Column,
    Dialect,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    text,
)
from sqlalchemy.types import TypeDecorator, TypeEngine

REVISION = "0015"
"""The newest migration. A database that stands here needs no migration, so none is loaded."""

VERSION_TABLE = "lw_version"


class Instant(TypeDecorator[datetime]):
    """An aware UTC instant, to the microsecond. PostgreSQL: timestamptz. SQLite: ISO text of one width, so it sorts."""

    impl = String(32)
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[datetime]:
        if dialect.name == "postgresql":
            return dialect.type_descriptor(TIMESTAMP(timezone=True))
        return dialect.type_descriptor(String(32))  # type: ignore[arg-type]

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | str | None:
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"an instant without a time zone: {value!r}")
        utc = value.astimezone(UTC)
        return utc if dialect.name == "postgresql" else utc.isoformat(timespec="microseconds")

    def process_result_value(self, value: datetime | str | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        return (datetime.fromisoformat(value) if isinstance(value, str) else value).astimezone(UTC)


Serial = BigInteger().with_variant(Integer, "sqlite")  # SQLite counts up only in a column of type INTEGER
Document = JSON(none_as_null=True)

metadata = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "uq": "uq_%(table_name)s_%(column_0_name)s",
    }
)

runs = Table(
    "lw_runs",
    metadata,
    Column("run_id", Text, primary_key=True),
    Column("job", Text, nullable=False),
    Column("plan_id", Text),
    Column("status", Text, nullable=False),
    Column("operator", Text, nullable=False),
    Column("worker", Text, nullable=False),
    Column("trigger", Text, nullable=False),
    Column("ticket", Text),
    Column("started_at", Instant, nullable=False),
    Column("finished_at", Instant),
    Column("result", Document),
    Column("marks", Integer, nullable=False, default=0, server_default="0"),
    Index("ix_lw_runs_started_at", "started_at"),
    Index("ix_lw_runs_plan_id", "plan_id"),
    Index(
        "ix_lw_runs_unfinished",
        "run_id",
        sqlite_where=text("finished_at IS NULL"),
        postgresql_where=text("finished_at IS NULL"),
    ),
)

steps = Table(
    "lw_steps",
    metadata,
    Column("step_id", Serial, primary_key=True, autoincrement=True),
    Column("run_id", Text, ForeignKey("lw_runs.run_id"), nullable=False),
    Column("name", Text, nullable=False),
    Column("detail", Document),
    Column("at", Instant, nullable=False),
    Index("ix_lw_steps_run_id", "run_id", "step_id"),
)

plans = Table(
    "lw_plans",
    metadata,
    Column("plan_id", Text, primary_key=True),
    Column("job", Text),
    Column("path", Text),
    Column("created_at", Instant),
    Column("expires_at", Instant),
    Column("cutoff", Instant),
    Column("header", LargeBinary),
    Column("used_by", Text),
    Column("used_at", Instant),
    Index("ix_lw_plans_job_created_at", "job", "created_at"),
)

plan_views = Table(
    "lw_plan_views",
    metadata,
    Column("plan_id", Text, primary_key=True),
    Column("view", Document, nullable=False),
)

journal = Table(
    "lw_journal",
    metadata,
    Column("run_id", Text, ForeignKey("lw_runs.run_id"), primary_key=True),
    Column("seq", Integer, primary_key=True, autoincrement=False),
    Column("kind", Text, nullable=False),
    Column("batch_no", Integer, nullable=False),
    Column("at", Instant, nullable=False),
    Column("count", Integer, nullable=False),
    Column("total_bytes", BigInteger, nullable=False),
    Column("first_uri", LargeBinary),
    Column("last_uri", LargeBinary),
    Column("tallies", Document),
    Column("content", LargeBinary, nullable=False),
    Column("prev_hash", String(64), nullable=False),
    Column("hash", String(64), nullable=False),
    UniqueConstraint("run_id", "batch_no", "kind"),
    Index("ix_lw_journal_first_uri", "first_uri", "last_uri"),
)

progress = Table(
    "lw_cleanup_progress",
    metadata,
    Column("run_id", Text, ForeignKey("lw_runs.run_id"), primary_key=True),
    Column("started_at", Instant, nullable=False),
    Column("scope", Text, nullable=False),
    Column("total_candidates", BigInteger, nullable=False),
    Column("processed", BigInteger, nullable=False),
    Column("deleted", BigInteger, nullable=False),
    Column("failed", BigInteger, nullable=False),
    Column("last_checkpoint_at", Instant, nullable=False),
)

pending = Table(
    "lw_pending",
    metadata,
    Column("uri", Text, primary_key=True),
    Column("run_id", Text, nullable=False),
    Column("table_name", Text, nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("released_at", Instant, nullable=False),
    Column("modified", Instant),
    Column("etag", Text),
    Column("kind", Text, nullable=False, server_default="other"),
    Index("ix_lw_pending_released_at", "released_at"),
    Index("ix_lw_pending_run_id", "run_id", "table_name"),
)

heartbeats = Table(
    "lw_heartbeats",
    metadata,
    Column("writer", Text, primary_key=True),
    Column("table_name", Text, primary_key=True),
    Column("prefix", Text, primary_key=True),
    Column("since", Instant, nullable=False),
    Column("beat_at", Instant, nullable=False),
    Column("ttl_seconds", Integer, nullable=False),
    Column("live_until", Instant, nullable=False),
    Column("made_by", Text),
    Column("ended_at", Instant),
    Column("ended_by", Text),
    Index("ix_lw_heartbeats_live_until", "live_until"),
)

switches = Table(
    "lw_switches",
    metadata,
    Column("switch_id", Serial, primary_key=True, autoincrement=True),
    Column("act", Text, nullable=False),
    Column("subject", Text),
    Column("operator", Text, nullable=False),
    Column("worker", Text, nullable=False),
    Column("trigger", Text, nullable=False),
    Column("ticket", Text),
    Column("reason", Text),
    Column("at", Instant, nullable=False),
    Index("ix_lw_switches_act", "act", "switch_id"),
)

deployment = Table(
    "lw_deployment",
    metadata,
    Column("one", Integer, primary_key=True, autoincrement=False),
    Column("deployment_id", Text, nullable=False),
    Column("created_at", Instant, nullable=False),
)

known_tables = Table(
    "lw_known_tables",
    metadata,
    Column("identifier", Text, primary_key=True),
    Column("uuid", Text, primary_key=True),
    Column("live_files", BigInteger, nullable=False),
    Column("live_bytes", BigInteger, nullable=False),
    Column("outside_roots", Document, nullable=False),
    Column("at", Instant, nullable=False),
    Column("metadata_location", Text),
    Column("roots", Document, nullable=False, server_default="[]"),
    Column("seen_location", Text, nullable=False, server_default=""),
    Column("seen_ms", BigInteger, nullable=False, server_default="0"),
    Column("absent_since", Instant),
    Column("first_seen", Instant),
)

archives = Table(
    "lw_archives",
    metadata,
    Column("run_id", Text, primary_key=True),
    Column("table_name", Text, primary_key=True),
    Column("uuid", Text, nullable=False),
    Column("uri", Text, nullable=False),
    Column("sha256", Text, nullable=False),
    Column("snapshots", Document, nullable=False),
    Column("archived_at", Instant, nullable=False),
    Index("ix_lw_archives_uuid", "uuid", "archived_at"),
)

cold_files = Table(
    "lw_cold_files",
    metadata,
    Column("uri", Text, primary_key=True),
    Column("cold_uri", Text, primary_key=True),
    Column("uuid", Text, nullable=False),
    Column("run_id", Text, nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("sha256", Text, nullable=False),
    Column("copied_at", Instant, nullable=False),
    Index("ix_lw_cold_files_uuid", "uuid"),
)

cold_snapshots = Table(
    "lw_cold_snapshots",
    metadata,
    Column("uuid", Text, primary_key=True),
    Column("snapshot_id", BigInteger, primary_key=True),
    Column("table_name", Text, nullable=False),
    Column("destination", Text, nullable=False),
    Column("metadata_uri", Text, nullable=False),
    Column("run_id", Text, nullable=False),
    Column("handed_at", Instant, nullable=False),
)

cache_files = Table(
    "lw_cache_files",
    metadata,
    Column("uri", Text, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("sha256", Text, nullable=False),
    Column("rows", BigInteger, nullable=False),
    Column("bytes", BigInteger, nullable=False),
    Column("added_at", Instant, nullable=False),  # and moved on whenever the file is used
    Index("ix_lw_cache_files_kind", "kind", "added_at"),
)

history_files = Table(
    "lw_history_files",
    metadata,
    Column("file_id", Serial, primary_key=True, autoincrement=True),
    Column("uri", Text, nullable=False),
    Column("sha256", Text, nullable=False),
    Column("rows", BigInteger, nullable=False),
    Column("bytes", BigInteger, nullable=False),
    Column("first_ms", BigInteger, nullable=False),
    Column("last_ms", BigInteger, nullable=False),
    Column("run_id", Text, nullable=False),
    Column("added_at", Instant, nullable=False),
    Column("lost", Text),  # why it counts no more
    UniqueConstraint("uri"),
)

history_snapshots = Table(
    "lw_history_snapshots",
    metadata,
    Column("uuid", Text, primary_key=True),
    Column("snapshot_id", BigInteger, primary_key=True, autoincrement=False),
    Column("digest", Text, primary_key=True),
    Column("file_id", BigInteger, nullable=False),
    Column("month", Text, nullable=False),
    Index("ix_lw_history_snapshots_snapshot_id", "snapshot_id"),
    Index("ix_lw_history_snapshots_month", "month", "uuid"),
)

history_months = Table(
    "lw_history_months",
    metadata,
    Column("month", Text, primary_key=True),
    Column("uri", Text, nullable=False),
    Column("sha256", Text, nullable=False),
    Column("lines", BigInteger, nullable=False),
    Column("snapshots", BigInteger, nullable=False),
    Column("made_at", Instant, nullable=False),
)
