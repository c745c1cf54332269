"""How many marks of a run the state location holds by what the database knows: one that went back knows of fewer."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("lw_runs", sa.Column("marks", sa.Integer(), nullable=False, server_default="0"))
    # Every run of before has one mark at most, the head of its journal.
    op.execute("UPDATE lw_runs SET marks = 1")
