"""A batch is two rows of the journal, with its files and outcomes packed: no row for every file that was deleted."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from lakewarden.ledger.schema import Document, Instant
from lakewarden.model.errors import StateError

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # Entries are chained by hashes over what they hold. Rewriting them would make new hashes in the name of old runs,
    # and no release wrote any, so a journal with entries is left exactly as it is.
    if op.get_bind().execute(sa.text("SELECT count(*) FROM lw_journal")).scalar():
        raise StateError(
            "the state database holds a journal of an unreleased version; it was not changed",
            hint="Keep that database as the record of what was deleted, and give state.database a new one.",
        )
    op.drop_table("lw_outcomes")
    op.drop_table("lw_journal")
    op.create_table(
        "lw_journal",
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("seq", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("batch_no", sa.Integer(), nullable=False),
        sa.Column("at", Instant(), nullable=False),
        sa.Column("count", sa.Integer(), nullable=False),
        sa.Column("total_bytes", sa.BigInteger(), nullable=False),
        sa.Column("first_uri", sa.LargeBinary()),
        sa.Column("last_uri", sa.LargeBinary()),
        sa.Column("tallies", Document),
        sa.Column("content", sa.LargeBinary(), nullable=False),
        sa.Column("prev_hash", sa.String(length=64), nullable=False),
        sa.Column("hash", sa.String(length=64), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["lw_runs.run_id"], name="fk_lw_journal_run_id"),
        sa.PrimaryKeyConstraint("run_id", "seq", name="pk_lw_journal"),
        sa.UniqueConstraint("run_id", "batch_no", "kind", name="uq_lw_journal_run_id"),
    )
    op.create_index("ix_lw_journal_first_uri", "lw_journal", ["first_uri", "last_uri"])
