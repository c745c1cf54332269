"""Counts of runs and plans, for Prometheus: sums that survive the processes that counted them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "lw_metrics",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("labels", sa.Text(), nullable=False),
        sa.Column("value", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("name", "labels", name="pk_lw_metrics"),
    )
    op.create_table(
        "lw_metric_tables",
        sa.Column("job", sa.Text(), nullable=False),
        sa.Column("identifier", sa.Text(), nullable=False),
        sa.Column("format", sa.Text(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("reclaimable", sa.BigInteger(), nullable=False),
        sa.Column("listed", sa.BigInteger(), nullable=False),
        sa.Column("plan_id", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("job", "identifier", name="pk_lw_metric_tables"),
    )
    unfinished = sa.text("finished_at IS NULL")
    op.create_index(
        "ix_lw_runs_unfinished", "lw_runs", ["run_id"], sqlite_where=unfinished, postgresql_where=unfinished
    )
