"""Whose a heartbeat is, and who ended it before its time: over HTTP only its maker and an approver may.

Those that are there have no maker: they were made straight in the state, or before this was known.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from lakewarden.ledger.schema import Instant

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("lw_heartbeats", sa.Column("made_by", sa.Text()))
    op.add_column("lw_heartbeats", sa.Column("ended_at", Instant()))
    op.add_column("lw_heartbeats", sa.Column("ended_by", sa.Text()))
