"""What a page of one table draws lies apart: a list of ten thousand tables reads names and numbers alone.

Both tables begin empty: they hold what the last look at the fleet saw, and the next look fills them.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("DELETE FROM lw_fleet")
    op.drop_column("lw_fleet", "detail")
    op.create_table(
        "lw_fleet_details",
        sa.Column("identifier", sa.Text(), primary_key=True),
        sa.Column("detail", sa.JSON(), nullable=False),
    )
