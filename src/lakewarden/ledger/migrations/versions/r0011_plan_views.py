"""What a page tells of a plan, kept beside its header."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "lw_plan_views",
        sa.Column("plan_id", sa.Text(), primary_key=True),
        sa.Column("view", sa.JSON(), nullable=False),
    )
