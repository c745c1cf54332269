"""PyIceberg's SQL catalog, opened by somebody who only looks: nothing is made, nothing migrated, no lock waited for long.

PyIceberg makes the database and its tables when they are not there. A catalog whose disk is not mounted would then be an
empty one, and every file of its tables would be nobody's.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode

from pyiceberg.catalog.sql import IcebergTables, SqlCatalog
from sqlalchemy import NullPool, create_engine, event, inspect
from sqlalchemy.exc import NoSuchTableError, OperationalError

from lakewarden.model.errors import CatalogMissingError

LOCK_SECONDS = 10  # for somebody else's lock on the catalog's table
STATEMENT_SECONDS = 60
CONNECT_SECONDS = 10
IN_MEMORY = ("", ":memory:")
LIBPQ, MYSQL = ("psycopg", "psycopg2"), ("pymysql", "mysqldb")


class StandingSqlCatalog(SqlCatalog):
    """A SQL catalog that is there already. Raises CatalogMissingError where it is not."""

    def _init_catalog(self) -> None:
        # PyIceberg has made its engine by now and asked it nothing.
        kind = self.engine.dialect.name
        if kind == "sqlite":
            # A connection that is kept open shows the file that it opened, even when another has taken its place.
            self.engine = create_engine(self.properties["uri"], poolclass=NullPool)
        elif kind == "postgresql":
            # In each transaction anew: a pooler in between may hand every transaction to another connection.
            event.listen(self.engine, "begin", _limit)
        event.listen(self.engine, "do_connect", _connect)
        try:
            columns = {column["name"] for column in inspect(self.engine).get_columns(IcebergTables.__tablename__)}
        except NoSuchTableError as error:
            raise self._missing(f"its database has no table {IcebergTables.__tablename__}") from error
        except OperationalError as error:
            if kind == "sqlite" and (place := self._file()) is not None and not place.exists():
                raise self._missing(f"{place} is not there") from error
            raise
        self._schema_version = "v1" if "iceberg_type" in columns else "v0"

    def _file(self) -> Path | None:
        name = str(self.engine.url.database or "").removeprefix("file:").partition("?")[0]
        return None if name in IN_MEMORY else Path(name)

    def _missing(self, why: str) -> CatalogMissingError:
        return CatalogMissingError(
            f"catalog {self.name} is not where its uri says: {why}; none was made, and nothing was planned or changed"
        )


def _connect(dialect: Any, record: Any, args: list[Any], given: dict[str, Any]) -> None:
    """What each connection is opened with, beyond what the uri says of itself."""
    if dialect.name == "sqlite":
        given.setdefault("timeout", LOCK_SECONDS)
        args[0], uri = _existing(str(args[0]), uri=bool(given.get("uri")))
        given["uri"] = uri
    elif dialect.driver in LIBPQ:
        given.setdefault("connect_timeout", CONNECT_SECONDS)
        # A server that has gone without a word is noticed.
        given.setdefault("tcp_user_timeout", STATEMENT_SECONDS * 1000)
        given.setdefault("keepalives_idle", CONNECT_SECONDS)
    elif dialect.driver in MYSQL:
        given.setdefault("connect_timeout", CONNECT_SECONDS)
        given.setdefault("read_timeout", STATEMENT_SECONDS)
        given.setdefault("write_timeout", STATEMENT_SECONDS)


def _existing(name: str, *, uri: bool) -> tuple[str, bool]:
    """The same database for SQLite, which makes a missing file unless it is told not to; and whether that is a URI."""
    if not uri:
        return (name, False) if name in IN_MEMORY else (f"{Path(name).absolute().as_uri()}?mode=rw", True)
    place, _, query = name.partition("?")
    asked = dict(parse_qsl(query, keep_blank_values=True))
    if asked.get("mode", "rwc") == "rwc":
        asked["mode"] = "rw"
    return f"{place}?{urlencode(asked)}", True


def _limit(connection: Any) -> None:
    connection.exec_driver_sql(
        f"SET LOCAL lock_timeout = '{LOCK_SECONDS}s'; SET LOCAL statement_timeout = '{STATEMENT_SECONDS}s'"
    )
