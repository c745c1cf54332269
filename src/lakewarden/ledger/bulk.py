"""Rows that come a thousand at a time, handed to the driver as they are: a batch waits for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Table


def insert_rows(connection: Connection, table: Table, columns: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> None:
    """Insert rows of plain values, inside the connection's transaction. No type of ours is applied to them."""
    if not rows:
        return
    names = ", ".join(columns)
    if connection.dialect.name == "postgresql":
        driver: Any = connection.connection.driver_connection
        with driver.cursor() as cursor, cursor.copy(f"COPY {table.name} ({names}) FROM STDIN") as copy:
            for row in rows:
                copy.write_row(row)
    else:
        places = ", ".join("?" * len(columns))
        connection.exec_driver_sql(f"INSERT INTO {table.name} ({names}) VALUES ({places})", list(rows))
