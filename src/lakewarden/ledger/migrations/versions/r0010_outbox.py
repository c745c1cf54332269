"""What is to be told by webhook, until it was heard."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from lakewarden.ledger.schema import Document, Instant, Serial

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "lw_outbox",
        sa.Column("delivery_id", Serial, autoincrement=True, nullable=False),
        sa.Column("event_id", sa.Text(), nullable=False),
        sa.Column("webhook", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("content", Document, nullable=False),
        sa.Column("at", Instant(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("next_try", Instant(), nullable=False),
        sa.Column("delivered_at", Instant(), nullable=True),
        sa.Column("given_up_at", Instant(), nullable=True),
        sa.Column("last_error", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("delivery_id", name="pk_lw_outbox"),
    )
    op.create_index("ix_lw_outbox_next_try", "lw_outbox", ["next_try"])
    op.create_index("ix_lw_outbox_at", "lw_outbox", ["at"])
