"""Pending files as expiry listed them: when last modified, their tag and kind, so that only that very file is deleted."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from lakewarden.ledger.schema import Instant

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("lw_pending", sa.Column("modified", Instant()))
    op.add_column("lw_pending", sa.Column("etag", sa.Text()))
    op.add_column("lw_pending", sa.Column("kind", sa.Text(), nullable=False, server_default="other"))
    op.create_index("ix_lw_pending_released_at", "lw_pending", ["released_at"])
    op.create_index("ix_lw_pending_run_id", "lw_pending", ["run_id", "table_name"])
