"""Which metadata a table's reach was read from: what is known of an unreadable table holds for that one only."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("lw_reach", sa.Column("metadata_location", sa.Text(), nullable=True))
