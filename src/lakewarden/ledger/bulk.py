"""Many rows at once, by column: how each database takes and gives them without a look at every single one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
from sqlalchemy import TIMESTAMP, Column, Connection, Select, String, Table, type_coerce

from lakewarden.ledger.schema import Instant

INSTANT = pa.timestamp("us", tz="UTC")
# Null is nothing at all, and an empty text a pair of quotes: both sides tell them apart.
_CSV = pyarrow.csv.WriteOptions(include_header=False, quoting_style="all_valid")


def put_columns(connection: Connection, table: Table, batches: Iterable[pa.RecordBatch]) -> None:
    """Insert rows, or overwrite those with the same primary key. The batches' columns are the table's, by name."""
    if connection.dialect.name == "postgresql":
        _copy(connection, table, batches)
        return
    cursor: Any = connection.connection.cursor()  # the driver takes any iterable, though its type says otherwise
    order = [(column.name, "ascending") for column in table.primary_key]
    for batch in batches:
        rows = batch.sort_by(order)  # neighbours share a page of the index: twice as fast as in any order
        names = rows.schema.names
        into = f"INSERT INTO {table.name} ({', '.join(names)}) VALUES ({', '.join('?' * len(names))})"
        cursor.executemany(f"{into} {_overwriting(table, names)}", zip(*map(_values, rows.columns), strict=True))


def delete_keys(connection: Connection, column: Column[Any], keys: Sequence[str]) -> int:
    """Delete the rows with these keys, and say how many there were."""
    where = f"DELETE FROM {column.table.name} WHERE {column.name}"
    if connection.dialect.name == "postgresql":
        return connection.exec_driver_sql(f"{where} = ANY(%s)", (list(keys),)).rowcount
    marks = ", ".join("?" * len(keys))
    return connection.exec_driver_sql(f"{where} IN ({marks})", tuple(keys)).rowcount


def read_columns(connection: Connection, query: Select[Any], schema: pa.Schema) -> pa.Table:
    """The rows of a query as a table of this shape; its columns are taken in the query's order, as the driver gives them."""
    plain = query.with_only_columns(*(_untouched(connection, column) for column in query.selected_columns))
    cursor: Any = connection.execute(plain).cursor
    rows = cursor.fetchall()
    columns: Sequence[Sequence[Any]] = list(zip(*rows, strict=True)) or [()] * len(schema)
    return pa.table([_array(column, field.type) for column, field in zip(columns, schema, strict=True)], schema=schema)


def _copy(connection: Connection, table: Table, batches: Iterable[pa.RecordBatch]) -> None:
    """PostgreSQL reads a stream of rows far faster than statements; it cannot overwrite, so they pass through a table
    of this transaction's own."""
    incoming = f"{table.name}_incoming"
    names = [column.name for column in table.columns]
    listed, keys = ", ".join(names), ", ".join(column.name for column in table.primary_key)
    connection.exec_driver_sql(f"CREATE TEMPORARY TABLE {incoming} (LIKE {table.name}) ON COMMIT DROP")
    driver: Any = connection.connection.driver_connection
    with driver.cursor() as cursor, cursor.copy(f"COPY {incoming} ({listed}) FROM STDIN (FORMAT csv)") as stream:
        for rows in batches:
            sink = pa.BufferOutputStream()
            pyarrow.csv.write_csv(rows.select(names), sink, _CSV)
            stream.write(sink.getvalue().to_pybytes())
    # One statement may not overwrite a row twice.
    chosen = f"SELECT DISTINCT ON ({keys}) {listed} FROM {incoming}"
    connection.exec_driver_sql(f"INSERT INTO {table.name} ({listed}) {chosen} {_overwriting(table, names)}")


def _overwriting(table: Table, names: Sequence[str]) -> str:
    keys = [column.name for column in table.primary_key]
    changed = ", ".join(f"{name} = excluded.{name}" for name in names if name not in keys)
    return f"ON CONFLICT ({', '.join(keys)}) DO UPDATE SET {changed}"


def _values(column: pa.Array) -> list[Any]:
    """A column as SQLite takes it: instants in the one text that the ledger keeps them in."""
    if pa.types.is_timestamp(column.type):
        text = column.cast(INSTANT).cast(pa.timestamp("us")).cast(pa.string())
        column = pc.binary_join_element_wise(pc.replace_substring(text, " ", "T"), "+00:00", "")
    if column.null_count and not pa.types.is_string(column.type):
        return list(column.to_pylist())
    return list(column.to_numpy(zero_copy_only=False).tolist())


def _untouched(connection: Connection, column: Any) -> Any:
    """The column as the driver gives it: instants become columns of instants in one step, not one by one."""
    if not isinstance(column.type, Instant):
        return column
    return type_coerce(column, TIMESTAMP(timezone=True) if connection.dialect.name == "postgresql" else String())


def _array(values: Sequence[Any], wanted: pa.DataType) -> pa.Array:
    if pa.types.is_timestamp(wanted) and any(isinstance(value, str) for value in values):
        return pa.array(values, pa.string()).cast(wanted)
    return pa.array(values, wanted)
