"""How the ledger talks to its database: one engine, short transactions, errors in the user's words."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine, Table, create_engine, event
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError

from lakewarden.ledger.disk import may_only_be_read, unwritable
from lakewarden.model.clock import Clock
from lakewarden.model.errors import ConfigError, StateBusyError, StateError, StateUnwritableError

BUSY_SECONDS = 30
POOL = {"pool_size": 8, "max_overflow": 24, "pool_timeout": 60}
WRITES = "lakewarden_writes"
# How long PostgreSQL may wait for a lock, and work on one statement: a migration of somebody else's, or millions of
# released files, take a while. Whoever holds a table locked must not hold a run for ever.
LOCK_SECONDS = 30
STATEMENT_SECONDS = 900
# A server that was cut off is known as gone after so many seconds, and not after the hours that TCP waits by itself.
CUT_OFF = {"keepalives_idle": 30, "keepalives_interval": 10, "keepalives_count": 3, "tcp_user_timeout": 60_000}
# lock_not_available, query_canceled; disk_full, read_only_sql_transaction (a standby answers)
_POSTGRES_BUSY, _POSTGRES_UNWRITABLE = ("55P03", "57014"), ("53100", "25006")
_SQLITE_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_SQLITE_UNWRITABLE = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_READONLY)
_PRIMARY = 0xFF  # the upper bits of SQLite's codes say more than is asked here
T = TypeVar("T")


class Connections:
    """Transactions on one database, from any thread. A block that raises leaves no trace."""

    def __init__(self, engine: Engine, clock: Clock, *, only_read: bool = False) -> None:
        self.engine = engine
        self.clock = clock
        self.only_read = only_read
        postgres = engine.dialect.name == "postgresql"
        # A report that reads several tables must see one state of them. SQLite gives that to every transaction.
        one_view = {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True} if postgres else {}
        self._reader = engine.execution_options(**one_view)
        self._writer = engine.execution_options(**{WRITES: True})
        # SQLite has one writer: queueing here is fair, while its own busy handler sleeps and may starve a thread.
        self._turn: AbstractContextManager[Any] = nullcontext() if postgres else threading.Lock()

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """One consistent view. Raises StateError when the database fails."""
        with _in_users_words(self.engine), self._reader.begin() as connection:
            yield connection

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """One atomic, durable change, committed when the block ends. Raises StateError when the database fails."""
        with self._turn, _in_users_words(self.engine), self._writer.begin() as connection:
            yield connection

    def close(self) -> None:
        self.engine.dispose()


def connect(url: str, clock: Clock) -> Connections:
    """The database at `sqlite:///PATH` or `postgresql://…`, nothing opened yet. Raises ConfigError for any other."""
    parsed = _parsed(url)
    if parsed.drivername == "sqlite":
        only_read = may_only_be_read(Path(str(parsed.database)))
        return Connections(_sqlite(parsed, only_read), clock, only_read=only_read)
    return Connections(_postgres(parsed), clock)


def put(
    connection: Connection,
    table: Table,
    rows: Sequence[Mapping[str, Any]],
    *,
    only: Iterable[str] | None = None,
    unique: Sequence[str] = (),
) -> None:
    """Insert rows, or overwrite those with the same primary key: all columns given, or `only` some, or none of them.

    `unique`: columns of a unique index that tell rows apart instead of the primary key.
    """
    if not rows:
        return
    keys = list(unique) or [column.name for column in table.primary_key]
    changed = [name for name in rows[0] if name not in keys] if only is None else list(only)
    insert = _insert(connection)(table)
    if changed:
        statement = insert.on_conflict_do_update(
            index_elements=keys, set_={name: insert.excluded[name] for name in changed}
        )
    else:
        statement = insert.on_conflict_do_nothing(index_elements=keys)
    connection.execute(statement, list(rows))


def add_up(connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]], column: str) -> None:
    """Insert rows; where one with the same primary key is there, add to its `column`."""
    if not rows:
        return
    insert = _insert(connection)(table)
    keys = [key.name for key in table.primary_key]
    more = {column: table.c[column] + insert.excluded[column]}
    connection.execute(insert.on_conflict_do_update(index_elements=keys, set_=more), list(rows))


def chunks(values: Iterable[T], size: int) -> Iterator[list[T]]:
    """Lists of at most `size`: databases bound the number of parameters in one statement."""
    rest = iter(values)
    while chunk := list(islice(rest, size)):
        yield chunk


def _insert(connection: Connection) -> Any:
    """The dialect's own INSERT. Loaded when asked for: a command that only reads has no need of the other dialect."""
    return import_module(f"sqlalchemy.dialects.{connection.dialect.name}").insert


def _parsed(url: str) -> URL:
    wanted = "state.database must be sqlite:///PATH or postgresql://USER@HOST/NAME"
    try:
        parsed = make_url(url)
    except ArgumentError as error:
        raise ConfigError(f"{wanted}; it cannot be read as an address. Nothing was opened.") from error
    if parsed.drivername == "sqlite" and parsed.database and parsed.database != ":memory:":
        return parsed
    if parsed.drivername in ("postgresql", "postgres", "postgresql+psycopg"):
        return parsed.set(drivername="postgresql+psycopg")
    raise ConfigError(f"{wanted}, not {parsed.render_as_string(hide_password=True)}. Nothing was opened.")


def _sqlite(url: URL, only_read: bool) -> Engine:
    path = Path(str(url.database))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StateError(
            f"the folder {path.parent} of the state database cannot be made: {error.strerror or error}"
        ) from error

    def as_it_lies() -> sqlite3.Connection:
        address = f"{path.absolute().as_uri()}?immutable=1"
        return sqlite3.connect(address, uri=True, check_same_thread=False)

    how: dict[str, Any] = {"creator": as_it_lies} if only_read else {"connect_args": {"timeout": BUSY_SECONDS}}
    engine = create_engine(url, hide_parameters=True, **how, **POOL)

    @event.listens_for(engine, "connect")
    def prepare(connection: Any, _record: object) -> None:
        connection.isolation_level = None  # the driver's own BEGIN is late and never IMMEDIATE; ours is below
        for pragma in (f"busy_timeout = {BUSY_SECONDS * 1000}", "synchronous = FULL", "foreign_keys = ON"):
            connection.execute(f"PRAGMA {pragma}")

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        # A transaction that reads first and writes later can fail half-way with "database is locked".
        writes = connection.get_execution_options().get(WRITES)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


def _postgres(url: URL) -> Engine:
    engine = create_engine(
        url,
        hide_parameters=True,
        pool_pre_ping=True,
        connect_args={"connect_timeout": 10, "application_name": "lakewarden", **CUT_OFF},
        **POOL,
    )

    @event.listens_for(engine, "connect")
    def prepare(connection: Any, _record: object) -> None:
        # An intent that a server crash can lose is no intent. Stricter settings than "on" are left alone.
        with connection.cursor() as cursor:
            cursor.execute("SHOW synchronous_commit")
            if cursor.fetchone()[0] == "off":
                cursor.execute("SET SESSION synchronous_commit TO on")
            for name, seconds in (("lock_timeout", LOCK_SECONDS), ("statement_timeout", STATEMENT_SECONDS)):
                cursor.execute(f"SHOW {name}")
                if cursor.fetchone()[0] == "0":
                    cursor.execute(f"SET SESSION {name} TO '{seconds}s'")
        connection.commit()

    return engine


@contextmanager
def _in_users_words(engine: Engine) -> Iterator[None]:
    driver_error: type[Exception] = engine.dialect.loaded_dbapi.Error
    try:
        yield
    except DBAPIError as error:
        raise named(engine, error.orig) from error
    except (SQLAlchemyError, driver_error) as error:
        raise named(engine, error) from error


def named(engine: Engine, error: BaseException | None) -> StateError:
    """What a database's own error is called here: busy, unwritable, or just failed."""
    where = engine.url.render_as_string(hide_password=True)
    told = f"the state database {where} failed: {_first_line(error)}"
    sqlite, postgres = getattr(error, "sqlite_errorcode", None), getattr(error, "sqlstate", None)
    if postgres in _POSTGRES_BUSY or (sqlite is not None and sqlite & _PRIMARY in _SQLITE_BUSY):
        return StateBusyError(f"the state database {where} is locked by somebody else: {_first_line(error)}")
    if postgres in _POSTGRES_UNWRITABLE:
        return StateUnwritableError(told)
    if engine.dialect.name == "sqlite" and (why := unwritable(str(engine.url.database))) is not None:
        return StateUnwritableError(f"{told}; {why}")
    return (
        StateUnwritableError(told)
        if sqlite is not None and sqlite & _PRIMARY in _SQLITE_UNWRITABLE
        else StateError(told)
    )


def _first_line(error: BaseException | None) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
