"""Catalogs that keep their tables in a database or behind a server, asked through pypaimon."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any

from lakewarden.model.errors import CatalogUnavailableError
from lakewarden.model.table import identifier_of
from lakewarden.model.uri import FileUri


def metastore_tables(name: str, properties: Mapping[str, str]) -> list[tuple[str, str]]:
    """Every table as (identifier, location ending in a slash). Raises CatalogUnavailableError for any failure."""
    try:
        # pypaimon takes more than a second to import, and commands that need no catalog must not wait for it.
        catalog: Any = import_module("pypaimon").CatalogFactory.create(dict(properties))
        try:
            return [(identifier_of(name, table), location) for table, location in _tables(catalog)]
        finally:
            getattr(catalog, "close", lambda: None)()
    except Exception as error:
        raise CatalogUnavailableError(
            f"catalog {name} could not be read ({type(error).__name__}: {error}); nothing was planned or changed"
        ) from error


def _tables(catalog: Any) -> Iterator[tuple[tuple[str, str], str]]:
    name: Any = import_module("pypaimon.common.identifier").Identifier
    for database in catalog.list_databases():
        for table in catalog.list_tables(database):
            found = catalog.get_table(name.create(database, table))
            # A table of another kind has no directory of its own to read. Its location still marks what is not ours.
            location = getattr(found, "table_path", None) or found.location()
            yield (database, table), FileUri.parse(str(location)).as_prefix()
