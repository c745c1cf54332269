"""What the ledger stores of webhooks: one row for each event and webhook."""

from __future__ import annotations

from sqlalchemy import Column, Index, Integer, Table, Text

from lakewarden.ledger.schema import Document, Instant, Serial, metadata

outbox = Table(
    "lw_outbox",
    metadata,
    Column("delivery_id", Serial, primary_key=True, autoincrement=True),
    Column("event_id", Text, nullable=False),
    Column("webhook", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("content", Document, nullable=False),
    Column("at", Instant, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("next_try", Instant, nullable=False),
    Column("delivered_at", Instant),
    Column("given_up_at", Instant),
    Column("last_error", Text),
    Index("ix_lw_outbox_next_try", "next_try"),
    Index("ix_lw_outbox_at", "at"),
)
