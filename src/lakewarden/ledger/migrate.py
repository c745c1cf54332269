"""Brings a database to the newest schema, once, however many processes start together."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, inspect, text
from tenacity import Retrying, retry_if_exception_message, wait_fixed

from lakewarden.ledger.connection import BUSY_SECONDS, Connections, named
from lakewarden.ledger.schema import REVISION, VERSION_TABLE
from lakewarden.model.errors import StateError

LOCK_KEY = 0x6C616B6577617264  # one advisory lock for all Lakewarden processes of a PostgreSQL database


def migrate(connections: Connections) -> None:
    """Bring the schema to REVISION under a lock. Raises StateError for a database that is newer than this code."""
    if connections.engine.dialect.name == "sqlite":
        _use_wal(connections)
    with connections.read() as connection:
        if _revision(connection) == REVISION:
            return
    with connections.write() as connection:  # on SQLite this is already the lock: there is one writer
        if connection.dialect.name == "postgresql":
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": LOCK_KEY})
        found = _revision(connection)
        if found != REVISION:
            _upgrade(connection, found)


def _revision(connection: Connection) -> str | None:
    if not inspect(connection).has_table(VERSION_TABLE):
        return None
    return connection.execute(text(f"SELECT version_num FROM {VERSION_TABLE}")).scalar()


def _upgrade(connection: Connection, found: str | None) -> None:
    # Loaded here: commands that find the schema in place must start fast.
    from alembic import command
    from alembic.config import Config
    from alembic.script import ScriptDirectory
    from alembic.util import CommandError

    config = Config()
    config.set_main_option("script_location", "lakewarden.ledger:migrations")
    config.attributes["connection"] = connection
    scripts = ScriptDirectory.from_config(config)
    known = {script.revision for script in scripts.walk_revisions()}
    if found is not None and found not in known:
        raise StateError(
            f"the state database is at schema {found}, which this version of Lakewarden (schema {REVISION}) "
            "does not know; it was left as it is",
            hint="Upgrade Lakewarden on this machine to the version that the other workers run.",
        )
    try:
        command.upgrade(config, "head")
    except CommandError as error:
        raise StateError(f"the state database could not be brought to schema {REVISION}: {error}") from error


def _use_wal(connections: Connections) -> None:
    """Switch the file to write-ahead logging. That needs the file alone and does not wait by itself, so this does."""
    path = connections.engine.url.database
    deadline = connections.clock.boot() + BUSY_SECONDS
    patiently = Retrying(
        retry=retry_if_exception_message(match=".*locked"),
        stop=lambda _: connections.clock.boot() > deadline,
        wait=wait_fixed(0.05),
        sleep=connections.clock.sleep,
        reraise=True,
    )

    def switch() -> Any:
        raw = connections.engine.raw_connection()
        try:
            return raw.cursor().execute("PRAGMA journal_mode = WAL").fetchone()
        finally:
            raw.close()

    try:
        mode = patiently(switch)
    except Exception as error:
        raise named(connections.engine, error) from error
    if mode is None or mode[0] != "wal":
        raise StateError(f"the state database {path} cannot use write-ahead logging (it says {mode})")
