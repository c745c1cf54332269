"""Catalogs that keep their tables in a database or behind a server, asked through pypaimon."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from lakewarden.model.errors import CatalogUnavailableError, ConfigError
from lakewarden.model.table import identifier_of, parts_of
from lakewarden.model.uri import FileUri


def metastore_tables(name: str, properties: Mapping[str, str]) -> list[tuple[str, str]]:
    """Every table as (identifier, location ending in a slash). Raises CatalogUnavailableError for any failure."""
    with _opened(name, properties) as catalog:
        return [
            (identifier_of(name, (database, table)), _location(catalog, database, table))
            for database in catalog.list_databases()
            for table in catalog.list_tables(database)
        ]


def metastore_table(identifier: str, properties: Mapping[str, str]) -> str | None:
    """Where one table lies, ending in a slash; None if there is none. Raises CatalogUnavailableError for any failure."""
    name, database, table = parts_of(identifier)
    with _opened(name, properties) as catalog:
        gone: Any = import_module("pypaimon.catalog.catalog_exception")
        try:
            return _location(catalog, database, table)
        except (gone.DatabaseNotExistException, gone.TableNotExistException):
            return None


@contextmanager
def _opened(name: str, properties: Mapping[str, str]) -> Iterator[Any]:
    try:
        # pypaimon takes more than a second to import, and commands that need no catalog must not wait for it.
        pypaimon: Any = import_module("pypaimon")
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"catalog {name} has metastore = {properties.get('metastore')!r}, which needs pypaimon ({error}); "
            "nothing was planned or changed",
            hint="pip install 'lakewarden[paimon]' (pypaimon has no release for Python 3.14 yet).",
        ) from error
    try:
        catalog: Any = pypaimon.CatalogFactory.create(dict(properties))
        try:
            yield catalog
        finally:
            getattr(catalog, "close", lambda: None)()
    except Exception as error:
        raise CatalogUnavailableError(
            f"catalog {name} could not be read ({type(error).__name__}: {error}); nothing was planned or changed"
        ) from error


def _location(catalog: Any, database: str, table: str) -> str:
    name: Any = import_module("pypaimon.common.identifier").Identifier
    found = catalog.get_table(name.create(database, table))
    # A table of another kind has no directory of its own to read. Its location still marks what is not ours.
    return FileUri.parse(str(getattr(found, "table_path", None) or found.location())).as_prefix()
