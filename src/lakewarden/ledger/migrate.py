"""Brings a database to the newest schema, once, however many processes start together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, inspect, text
from tenacity import Retrying, retry_if_exception_message, wait_fixed

from lakewarden.ledger.connection import BUSY_SECONDS, Connections, connect, named
from lakewarden.ledger.schema import REVISION, VERSION_TABLE
from lakewarden.model.clock import Clock
from lakewarden.model.errors import StateError, StateUnwritableError

LOCK_KEY = 0x6C616B6577617264  # one advisory lock for all Lakewarden processes of a PostgreSQL database


def migrate(connections: Connections) -> None:
    """Bring the schema to REVISION under a lock. Raises StateError for a database that is newer than this code."""
    if connections.engine.dialect.name == "sqlite" and not connections.only_read:
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


@dataclass(frozen=True, slots=True)
class Inspected:
    """What kind of database it is, the schema it is at (None: it has none yet), and the newest that this version knows."""

    kind: str
    schema: str | None
    newest: str


def inspect_database(url: str, clock: Clock) -> Inspected:
    """Look at a database without bringing it to the newest schema. Raises StateError unless it could be written to."""
    connections = connect(url, clock)
    try:
        with connections.write() as connection:  # on SQLite this takes the writer's lock, which a file to read denies
            found = _revision(connection)
            if connection.dialect.name == "postgresql":
                _check_postgres(connection, found != REVISION)
        kind = {"sqlite": "SQLite", "postgresql": "PostgreSQL"}[connections.engine.dialect.name]
        _check_known(found)
    finally:
        connections.close()
    return Inspected(kind, found, REVISION)


def _check_postgres(connection: Connection, to_be_made: bool) -> None:
    if connection.execute(text("SHOW transaction_read_only")).scalar() == "on":
        raise StateUnwritableError("the state database answers, and may only be read: it is a standby, or set so")
    may_create = "SELECT current_schema() IS NOT NULL AND has_schema_privilege(current_schema(), 'CREATE')"
    if to_be_made and not connection.execute(text(may_create)).scalar():
        raise StateUnwritableError(
            "the state database answers, and its user may not create tables there",
            hint="GRANT CREATE ON SCHEMA public TO that user, or give the worker a database of its own.",
        )


def _revision(connection: Connection) -> str | None:
    if not inspect(connection).has_table(VERSION_TABLE):
        return None
    return connection.execute(text(f"SELECT version_num FROM {VERSION_TABLE}")).scalar()


def _upgrade(connection: Connection, found: str | None) -> None:
    # Loaded here: commands that find the schema in place must start fast.
    from alembic import command
    from alembic.util import CommandError

    _check_known(found)
    config = _alembic()
    config.attributes["connection"] = connection
    try:
        command.upgrade(config, "head")
    except CommandError as error:
        raise StateError(f"the state database could not be brought to schema {REVISION}: {error}") from error


def _check_known(found: str | None) -> None:
    """Raise StateError for a schema that a newer version made."""
    if found in (None, REVISION):
        return
    from alembic.script import ScriptDirectory

    if found not in {script.revision for script in ScriptDirectory.from_config(_alembic()).walk_revisions()}:
        raise StateError(
            f"the state database is at schema {found}, which this version of Lakewarden (schema {REVISION}) "
            "does not know; it was left as it is",
            hint="Upgrade Lakewarden on this machine to the version that the other workers run.",
        )


def _alembic() -> Any:
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", "lakewarden.ledger:migrations")
    return config


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
