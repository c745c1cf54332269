"""The service: requests and their events, tokens, sessions, decisions on plans, the schedule, the fleet as last seen."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from lakewarden.ledger.schema import Document, Instant, Serial

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "lw_requests",
        sa.Column("request_id", sa.Text(), primary_key=True),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("job", sa.Text()),
        sa.Column("arguments", Document, nullable=False),
        sa.Column("operator", sa.Text(), nullable=False),
        sa.Column("worker", sa.Text(), nullable=False),
        sa.Column("trigger", sa.Text(), nullable=False),
        sa.Column("ticket", sa.Text()),
        sa.Column("idempotency_key", sa.Text()),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("created_at", Instant(), nullable=False),
        sa.Column("due_at", Instant()),
        sa.Column("claimed_by", sa.Text()),
        sa.Column("claimed_at", Instant()),
        sa.Column("beat_at", Instant()),
        sa.Column("takeovers", sa.Integer(), nullable=False, server_default="0"),
        sa.Column("finished_at", Instant()),
        sa.Column("run_id", sa.Text()),
        sa.Column("plan_id", sa.Text()),
        sa.Column("plan_path", sa.Text()),
        sa.Column("result", Document),
        sa.Column("error", Document),
        sa.Column("cancel_asked_at", Instant()),
        sa.Column("cancel_asked_by", sa.Text()),
    )
    op.create_index("ix_lw_requests_idempotency_key", "lw_requests", ["idempotency_key"], unique=True)
    op.create_index("ix_lw_requests_status", "lw_requests", ["status", "due_at", "created_at"])
    op.create_index("ix_lw_requests_created_at", "lw_requests", ["created_at", "request_id"])
    op.create_index("ix_lw_requests_plan_id", "lw_requests", ["plan_id"])
    op.create_table(
        "lw_events",
        sa.Column("event_id", Serial, primary_key=True, autoincrement=True),
        sa.Column("request_id", sa.Text(), sa.ForeignKey("lw_requests.request_id"), nullable=False),
        sa.Column("at", Instant(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("detail", Document),
    )
    op.create_index("ix_lw_events_request_id", "lw_events", ["request_id", "event_id"])
    op.create_table(
        "lw_tokens",
        sa.Column("name", sa.Text(), primary_key=True),
        sa.Column("token_id", sa.Text(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("salt", sa.LargeBinary(), nullable=False),
        sa.Column("hash", sa.LargeBinary(), nullable=False),
        sa.Column("created_at", Instant(), nullable=False),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.Column("expires_at", Instant()),
        sa.Column("revoked_at", Instant()),
        sa.Column("last_used_at", Instant()),
    )
    op.create_index("ix_lw_tokens_token_id", "lw_tokens", ["token_id"], unique=True)
    op.create_table(
        "lw_sessions",
        sa.Column("hash", sa.LargeBinary(), primary_key=True),
        sa.Column("token_id", sa.Text(), nullable=False),
        sa.Column("csrf", sa.Text(), nullable=False),
        sa.Column("created_at", Instant(), nullable=False),
        sa.Column("expires_at", Instant(), nullable=False),
    )
    op.create_index("ix_lw_sessions_expires_at", "lw_sessions", ["expires_at"])
    op.create_table(
        "lw_approvals",
        sa.Column("plan_id", sa.Text(), primary_key=True),
        sa.Column("decision", sa.Text(), nullable=False),
        sa.Column("operator", sa.Text(), nullable=False),
        sa.Column("worker", sa.Text(), nullable=False),
        sa.Column("trigger", sa.Text(), nullable=False),
        sa.Column("ticket", sa.Text()),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("planned_by", sa.Text(), nullable=False),
        sa.Column("at", Instant(), nullable=False),
    )
    op.create_table(
        "lw_schedules",
        sa.Column("job", sa.Text(), primary_key=True),
        sa.Column("next_due", Instant()),
        sa.Column("why", sa.Text(), nullable=False),
        sa.Column("last_due", Instant()),
        sa.Column("last_request", sa.Text()),
        sa.Column("last_outcome", sa.Text()),
        sa.Column("quiet_runs", sa.Integer(), nullable=False, server_default="0"),
        sa.Column("updated_at", Instant(), nullable=False),
    )
    op.create_table(
        "lw_fleet",
        sa.Column("identifier", sa.Text(), primary_key=True),
        sa.Column("catalog", sa.Text(), nullable=False),
        sa.Column("namespace", sa.Text(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("format", sa.Text(), nullable=False),
        sa.Column("uuid", sa.Text(), nullable=False),
        sa.Column("health", sa.Text(), nullable=False),
        sa.Column("code", sa.Text()),
        sa.Column("codes", Document, nullable=False),
        sa.Column("snapshots", sa.BigInteger(), nullable=False),
        sa.Column("refs", sa.BigInteger(), nullable=False),
        sa.Column("files", sa.BigInteger()),
        sa.Column("bytes", sa.BigInteger()),
        sa.Column("small_files", sa.BigInteger()),
        sa.Column("delete_files", sa.BigInteger()),
        sa.Column("reclaimable_bytes", sa.BigInteger(), nullable=False),
        sa.Column("orphan_share", sa.Float()),
        sa.Column("newest_commit_at", Instant()),
        sa.Column("observed_at", Instant(), nullable=False),
        sa.Column("detail", Document, nullable=False),
    )
    op.create_index("ix_lw_fleet_health", "lw_fleet", ["health", "identifier"])
    op.create_index("ix_lw_fleet_reclaimable_bytes", "lw_fleet", ["reclaimable_bytes"])
    op.create_index("ix_lw_fleet_tenant", "lw_fleet", ["tenant", "identifier"])
