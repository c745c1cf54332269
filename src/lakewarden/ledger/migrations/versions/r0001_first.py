"""The first schema: runs, plans, journal, progress, pending files, heartbeats, switches, reach, manifest cache."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from lakewarden.ledger.schema import Document, Instant, Serial

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "lw_cache_files",
        sa.Column("uri", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("sha256", sa.Text(), nullable=False),
        sa.Column("rows", sa.BigInteger(), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.Column("added_at", Instant(), nullable=False),
        sa.PrimaryKeyConstraint("uri", name="pk_lw_cache_files"),
    )
    op.create_index("ix_lw_cache_files_kind", "lw_cache_files", ["kind", "added_at"])
    op.create_table(
        "lw_deployment",
        sa.Column("one", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("deployment_id", sa.Text(), nullable=False),
        sa.Column("created_at", Instant(), nullable=False),
        sa.PrimaryKeyConstraint("one", name="pk_lw_deployment"),
    )
    op.create_table(
        "lw_heartbeats",
        sa.Column("writer", sa.Text(), nullable=False),
        sa.Column("table_name", sa.Text(), nullable=False),
        sa.Column("prefix", sa.Text(), nullable=False),
        sa.Column("since", Instant(), nullable=False),
        sa.Column("beat_at", Instant(), nullable=False),
        sa.Column("ttl_seconds", sa.Integer(), nullable=False),
        sa.Column("live_until", Instant(), nullable=False),
        sa.PrimaryKeyConstraint("writer", "table_name", "prefix", name="pk_lw_heartbeats"),
    )
    op.create_index("ix_lw_heartbeats_live_until", "lw_heartbeats", ["live_until"])
    op.create_table(
        "lw_pending",
        sa.Column("uri", sa.Text(), nullable=False),
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("table_name", sa.Text(), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("released_at", Instant(), nullable=False),
        sa.PrimaryKeyConstraint("uri", name="pk_lw_pending"),
    )
    op.create_table(
        "lw_plans",
        sa.Column("plan_id", sa.Text(), nullable=False),
        sa.Column("job", sa.Text()),
        sa.Column("path", sa.Text()),
        sa.Column("created_at", Instant()),
        sa.Column("expires_at", Instant()),
        sa.Column("cutoff", Instant()),
        sa.Column("header", sa.LargeBinary()),
        sa.Column("used_by", sa.Text()),
        sa.Column("used_at", Instant()),
        sa.PrimaryKeyConstraint("plan_id", name="pk_lw_plans"),
    )
    op.create_index("ix_lw_plans_job_created_at", "lw_plans", ["job", "created_at"])
    op.create_table(
        "lw_reach",
        sa.Column("identifier", sa.Text(), nullable=False),
        sa.Column("uuid", sa.Text(), nullable=False),
        sa.Column("live_files", sa.BigInteger(), nullable=False),
        sa.Column("live_bytes", sa.BigInteger(), nullable=False),
        sa.Column("outside_roots", Document, nullable=False),
        sa.Column("at", Instant(), nullable=False),
        sa.PrimaryKeyConstraint("identifier", "uuid", name="pk_lw_reach"),
    )
    op.create_table(
        "lw_runs",
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("job", sa.Text(), nullable=False),
        sa.Column("plan_id", sa.Text()),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("operator", sa.Text(), nullable=False),
        sa.Column("worker", sa.Text(), nullable=False),
        sa.Column("trigger", sa.Text(), nullable=False),
        sa.Column("ticket", sa.Text()),
        sa.Column("started_at", Instant(), nullable=False),
        sa.Column("finished_at", Instant()),
        sa.Column("result", Document),
        sa.PrimaryKeyConstraint("run_id", name="pk_lw_runs"),
    )
    op.create_index("ix_lw_runs_plan_id", "lw_runs", ["plan_id"])
    op.create_index("ix_lw_runs_started_at", "lw_runs", ["started_at"])
    op.create_table(
        "lw_switches",
        sa.Column("switch_id", Serial, autoincrement=True, nullable=False),
        sa.Column("act", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text()),
        sa.Column("operator", sa.Text(), nullable=False),
        sa.Column("worker", sa.Text(), nullable=False),
        sa.Column("trigger", sa.Text(), nullable=False),
        sa.Column("ticket", sa.Text()),
        sa.Column("reason", sa.Text()),
        sa.Column("at", Instant(), nullable=False),
        sa.PrimaryKeyConstraint("switch_id", name="pk_lw_switches"),
    )
    op.create_index("ix_lw_switches_act", "lw_switches", ["act", "switch_id"])
    op.create_table(
        "lw_cleanup_progress",
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("started_at", Instant(), nullable=False),
        sa.Column("scope", sa.Text(), nullable=False),
        sa.Column("total_candidates", sa.BigInteger(), nullable=False),
        sa.Column("processed", sa.BigInteger(), nullable=False),
        sa.Column("deleted", sa.BigInteger(), nullable=False),
        sa.Column("failed", sa.BigInteger(), nullable=False),
        sa.Column("last_checkpoint_at", Instant(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["lw_runs.run_id"], name="fk_lw_cleanup_progress_run_id"),
        sa.PrimaryKeyConstraint("run_id", name="pk_lw_cleanup_progress"),
    )
    op.create_table(
        "lw_journal",
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("seq", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("batch_no", sa.Integer(), nullable=False),
        sa.Column("at", Instant(), nullable=False),
        sa.Column("files", sa.LargeBinary()),
        sa.Column("count", sa.Integer(), nullable=False),
        sa.Column("total_bytes", sa.BigInteger(), nullable=False),
        sa.Column("prev_hash", sa.String(length=64), nullable=False),
        sa.Column("hash", sa.String(length=64), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["lw_runs.run_id"], name="fk_lw_journal_run_id"),
        sa.PrimaryKeyConstraint("run_id", "seq", name="pk_lw_journal"),
        sa.UniqueConstraint("run_id", "batch_no", "kind", name="uq_lw_journal_run_id"),
    )
    op.create_table(
        "lw_outcomes",
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("batch_no", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("position", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("uri_hash", sa.BigInteger(), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("code", sa.Text()),
        sa.Column("message", sa.Text()),
        sa.ForeignKeyConstraint(["run_id"], ["lw_runs.run_id"], name="fk_lw_outcomes_run_id"),
        sa.PrimaryKeyConstraint("run_id", "batch_no", "position", name="pk_lw_outcomes"),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_lw_outcomes_uri_hash", "lw_outcomes", ["uri_hash"])
    op.create_table(
        "lw_steps",
        sa.Column("step_id", Serial, autoincrement=True, nullable=False),
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("detail", Document),
        sa.Column("at", Instant(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["lw_runs.run_id"], name="fk_lw_steps_run_id"),
        sa.PrimaryKeyConstraint("step_id", name="pk_lw_steps"),
    )
    op.create_index("ix_lw_steps_run_id", "lw_steps", ["run_id", "step_id"])
