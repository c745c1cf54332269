"""Every table that was ever seen: where it had files, and since when its catalog does not list it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from lakewarden.ledger.schema import Document, Instant

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.rename_table("lw_reach", "lw_known_tables")
    op.add_column("lw_known_tables", sa.Column("roots", Document, nullable=False, server_default="[]"))
    op.add_column("lw_known_tables", sa.Column("seen_location", sa.Text(), nullable=False, server_default=""))
    op.add_column("lw_known_tables", sa.Column("seen_ms", sa.BigInteger(), nullable=False, server_default="0"))
    op.add_column("lw_known_tables", sa.Column("absent_since", Instant(), nullable=True))
    op.add_column("lw_known_tables", sa.Column("first_seen", Instant(), nullable=True))
