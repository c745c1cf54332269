"""Which look at the fleet is the last, found without reading every table's row."""

from __future__ import annotations

from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_index("ix_lw_fleet_observed_at", "lw_fleet", ["observed_at"])
