"""Runs the revisions on the connection that `ledger.migrate` hands over, inside its transaction."""

from __future__ import annotations

from alembic import context

from lakewarden.ledger.schema import VERSION_TABLE, metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    version_table=VERSION_TABLE,
    transactional_ddl=True,  # both databases have it; Alembic assumes that SQLite does not
)
with context.begin_transaction():
    context.run_migrations()
