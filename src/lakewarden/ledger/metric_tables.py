"""What the ledger stores of metrics: sums by name and labels, and what the newest plans saw of each table."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Double, Table, Text

from lakewarden.ledger.schema import metadata

counts = Table(
    "lw_metrics",
    metadata,
    Column("name", Text, primary_key=True),
    Column("labels", Text, primary_key=True),
    Column("value", Double, nullable=False),
)

standings = Table(
    "lw_metric_tables",
    metadata,
    Column("job", Text, primary_key=True),
    Column("identifier", Text, primary_key=True),
    Column("format", Text, nullable=False),
    Column("tenant", Text, nullable=False),
    Column("reclaimable", BigInteger, nullable=False),
    Column("listed", BigInteger, nullable=False),
    Column("plan_id", Text, nullable=False),
)
