"""The archive of snapshots: its files, which snapshots of which tables are in them, and the summaries of months."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from lakewarden.ledger.schema import Instant, Serial

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "lw_history_files",
        sa.Column("file_id", Serial, primary_key=True, autoincrement=True),
        sa.Column("uri", sa.Text(), nullable=False),
        sa.Column("sha256", sa.Text(), nullable=False),
        sa.Column("rows", sa.BigInteger(), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.Column("first_ms", sa.BigInteger(), nullable=False),
        sa.Column("last_ms", sa.BigInteger(), nullable=False),
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("added_at", Instant(), nullable=False),
        sa.Column("lost", sa.Text()),
        sa.UniqueConstraint("uri", name="uq_lw_history_files_uri"),
    )
    op.create_table(
        "lw_history_snapshots",
        sa.Column("uuid", sa.Text(), primary_key=True),
        sa.Column("snapshot_id", sa.BigInteger(), primary_key=True, autoincrement=False),
        sa.Column("digest", sa.Text(), primary_key=True),
        sa.Column("file_id", sa.BigInteger(), nullable=False),
        sa.Column("month", sa.Text(), nullable=False),
    )
    op.create_index("ix_lw_history_snapshots_snapshot_id", "lw_history_snapshots", ["snapshot_id"])
    op.create_index("ix_lw_history_snapshots_month", "lw_history_snapshots", ["month", "uuid"])
    op.create_table(
        "lw_history_months",
        sa.Column("month", sa.Text(), primary_key=True),
        sa.Column("uri", sa.Text(), nullable=False),
        sa.Column("sha256", sa.Text(), nullable=False),
        sa.Column("lines", sa.BigInteger(), nullable=False),
        sa.Column("snapshots", sa.BigInteger(), nullable=False),
        sa.Column("made_at", Instant(), nullable=False),
    )
