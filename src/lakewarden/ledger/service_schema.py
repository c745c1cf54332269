"""What the service keeps in the ledger: requests and their events, tokens, sessions, decisions, the schedule, the fleet as last seen."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Float, ForeignKey, Index, Integer, LargeBinary, Table, Text

from lakewarden.ledger.schema import Document, Instant, Serial, metadata

requests = Table(
    "lw_requests",
    metadata,
    Column("request_id", Text, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("job", Text),
    Column("arguments", Document, nullable=False),
    Column("operator", Text, nullable=False),
    Column("worker", Text, nullable=False),
    Column("trigger", Text, nullable=False),
    Column("ticket", Text),
    Column("idempotency_key", Text),
    Column("status", Text, nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("due_at", Instant),
    Column("claimed_by", Text),
    Column("claimed_at", Instant),
    Column("beat_at", Instant),
    Column("takeovers", Integer, nullable=False, server_default="0"),
    Column("finished_at", Instant),
    Column("run_id", Text),
    Column("plan_id", Text),
    Column("plan_path", Text),
    Column("result", Document),
    Column("error", Document),
    Column("cancel_asked_at", Instant),
    Column("cancel_asked_by", Text),
    Index("ix_lw_requests_idempotency_key", "idempotency_key", unique=True),
    Index("ix_lw_requests_status", "status", "due_at", "created_at"),
    Index("ix_lw_requests_created_at", "created_at", "request_id"),
    Index("ix_lw_requests_plan_id", "plan_id"),
)

events = Table(
    "lw_events",
    metadata,
    Column("event_id", Serial, primary_key=True, autoincrement=True),
    Column("request_id", Text, ForeignKey("lw_requests.request_id"), nullable=False),
    Column("at", Instant, nullable=False),
    Column("name", Text, nullable=False),
    Column("detail", Document),
    Index("ix_lw_events_request_id", "request_id", "event_id"),
)

tokens = Table(
    "lw_tokens",
    metadata,
    Column("name", Text, primary_key=True),
    Column("token_id", Text, nullable=False),
    Column("role", Text, nullable=False),
    Column("salt", LargeBinary, nullable=False),
    Column("hash", LargeBinary, nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("created_by", Text, nullable=False),
    Column("expires_at", Instant),
    Column("revoked_at", Instant),
    Column("last_used_at", Instant),
    Index("ix_lw_tokens_token_id", "token_id", unique=True),
)

sessions = Table(
    "lw_sessions",
    metadata,
    Column("hash", LargeBinary, primary_key=True),
    Column("token_id", Text, nullable=False),
    Column("csrf", Text, nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("expires_at", Instant, nullable=False),
    Index("ix_lw_sessions_expires_at", "expires_at"),
)

approvals = Table(
    "lw_approvals",
    metadata,
    Column("plan_id", Text, primary_key=True),
    Column("decision", Text, nullable=False),
    Column("operator", Text, nullable=False),
    Column("worker", Text, nullable=False),
    Column("trigger", Text, nullable=False),
    Column("ticket", Text),
    Column("reason", Text, nullable=False),
    Column("planned_by", Text, nullable=False),
    Column("at", Instant, nullable=False),
)

schedules = Table(
    "lw_schedules",
    metadata,
    Column("job", Text, primary_key=True),
    Column("next_due", Instant),
    Column("why", Text, nullable=False),
    Column("last_due", Instant),
    Column("last_request", Text),
    Column("last_outcome", Text),
    Column("quiet_runs", Integer, nullable=False, server_default="0"),
    Column("updated_at", Instant, nullable=False),
)

fleet = Table(
    "lw_fleet",
    metadata,
    Column("identifier", Text, primary_key=True),
    Column("catalog", Text, nullable=False),
    Column("namespace", Text, nullable=False),
    Column("tenant", Text, nullable=False),
    Column("format", Text, nullable=False),
    Column("uuid", Text, nullable=False),
    Column("health", Text, nullable=False),
    Column("code", Text),
    Column("codes", Document, nullable=False),
    Column("snapshots", BigInteger, nullable=False),
    Column("refs", BigInteger, nullable=False),
    Column("files", BigInteger),
    Column("bytes", BigInteger),
    Column("small_files", BigInteger),
    Column("delete_files", BigInteger),
    Column("reclaimable_bytes", BigInteger, nullable=False),
    Column("orphan_share", Float),
    Column("newest_commit_at", Instant),
    Column("observed_at", Instant, nullable=False),
    Index("ix_lw_fleet_health", "health", "identifier"),
    Index("ix_lw_fleet_reclaimable_bytes", "reclaimable_bytes"),
    Index("ix_lw_fleet_tenant", "tenant", "identifier"),
    Index("ix_lw_fleet_observed_at", "observed_at"),
)

fleet_details = Table(
    "lw_fleet_details",
    metadata,
    Column("identifier", Text, primary_key=True),
    Column("detail", Document, nullable=False),
)
