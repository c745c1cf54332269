"""Metadata as it was before expiry, and what the cold tier holds of it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from lakewarden.ledger.schema import Document, Instant

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "lw_archives",
        sa.Column("run_id", sa.Text(), primary_key=True),
        sa.Column("table_name", sa.Text(), primary_key=True),
        sa.Column("uuid", sa.Text(), nullable=False),
        sa.Column("uri", sa.Text(), nullable=False),
        sa.Column("sha256", sa.Text(), nullable=False),
        sa.Column("snapshots", Document, nullable=False),
        sa.Column("archived_at", Instant(), nullable=False),
    )
    op.create_index("ix_lw_archives_uuid", "lw_archives", ["uuid", "archived_at"])
    op.create_table(
        "lw_cold_files",
        sa.Column("uri", sa.Text(), primary_key=True),
        sa.Column("cold_uri", sa.Text(), primary_key=True),
        sa.Column("uuid", sa.Text(), nullable=False),
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("sha256", sa.Text(), nullable=False),
        sa.Column("copied_at", Instant(), nullable=False),
    )
    op.create_index("ix_lw_cold_files_uuid", "lw_cold_files", ["uuid"])
    op.create_table(
        "lw_cold_snapshots",
        sa.Column("uuid", sa.Text(), primary_key=True),
        sa.Column("snapshot_id", sa.BigInteger(), primary_key=True),
        sa.Column("table_name", sa.Text(), nullable=False),
        sa.Column("destination", sa.Text(), nullable=False),
        sa.Column("metadata_uri", sa.Text(), nullable=False),
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("handed_at", Instant(), nullable=False),
    )
