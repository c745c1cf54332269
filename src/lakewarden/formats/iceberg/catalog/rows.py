"""The rows of a SQL catalog: one for each table, with the pointer in it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakewarden.model.table import parts_of

if TYPE_CHECKING:
    from pyiceberg.catalog.sql import SqlCatalog

TABLE = "TABLE"


@dataclass(frozen=True, slots=True)
class Row:
    """A table's name, and where its metadata is and was: empty where the catalog does not say."""

    name: tuple[str, ...]
    location: str
    previous: str


@dataclass(frozen=True, slots=True)
class Asked:
    """A catalog's rows as it answered, with the names of their columns: two answers are compared at once."""

    columns: tuple[str, ...]
    rows: Sequence[tuple[Any, ...]]


def asked_rows(catalog: SqlCatalog) -> Asked:
    """Every table in one query: asking table by table costs a fleet of thousands a query and a read each, every batch."""
    rows = catalog_table()
    columns = _columns(catalog)
    query = rows.select().with_only_columns(*columns).where(rows.c.catalog_name == catalog.name)
    with catalog.engine.connect() as connection:
        return Asked(tuple(column.name for column in columns), list(map(tuple, connection.execute(query))))


def table_rows(asked: Asked) -> Iterator[Row]:
    """The tables among the rows: views are none."""
    for values in asked.rows:
        found = dict(zip(asked.columns, values, strict=True))
        if found.get("iceberg_type") in (None, TABLE):
            yield _row(found)


def table_row(catalog: SqlCatalog, table: str) -> Row | None:
    """The row of one table, by its name within the catalog."""
    rows = catalog_table()
    query = rows.select().with_only_columns(*_columns(catalog)).where(*is_row(catalog, table))
    with catalog.engine.connect() as connection:
        found = connection.execute(query).mappings().first()
    return None if found is None else _row(found)


def is_row(catalog: SqlCatalog, table: str) -> tuple[Any, Any, Any]:
    """The conditions that only this table's row meets. A namespace is one text there, joined by dots."""
    *namespace, name = parts_of(table)
    rows = catalog_table()
    return (
        rows.c.catalog_name == catalog.name,
        rows.c.table_namespace == ".".join(namespace),
        rows.c.table_name == name,
    )


def catalog_table() -> Any:
    from pyiceberg.catalog.sql import IcebergTables

    return IcebergTables.__table__


def _columns(catalog: SqlCatalog) -> list[Any]:
    """All columns that this catalog has: older ones know no views."""
    with_views = getattr(catalog, "_schema_version", "v1") == "v1"
    return [column for column in catalog_table().c if with_views or column.name != "iceberg_type"]


def _row(found: Any) -> Row:
    name = (*str(found["table_namespace"]).split("."), str(found["table_name"]))
    return Row(name, found["metadata_location"] or "", found["previous_metadata_location"] or "")
