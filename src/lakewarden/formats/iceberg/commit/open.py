"""Which catalogs can be changed without losing what others do at the same time, and how."""

from __future__ import annotations

from collections.abc import Mapping

from lakewarden.formats.iceberg.catalog.connection import connect
from lakewarden.formats.iceberg.commit.rest_versions import RestVersions
from lakewarden.formats.iceberg.commit.versions import SqlVersions, Versions
from lakewarden.model.errors import CatalogUnavailableError, LakewardenError, UnsupportedTableError
from lakewarden.model.ports import Files


def open_versions(name: str, properties: Mapping[str, str], files: Files) -> Versions:
    """The tables of a catalog. Raises UnsupportedTableError for a kind of catalog that nobody has tried."""
    from pyiceberg.catalog.rest import RestCatalog
    from pyiceberg.catalog.sql import SqlCatalog

    try:
        catalog = connect(name, properties)
    except LakewardenError:
        raise
    except Exception as error:
        raise CatalogUnavailableError(
            f"catalog {name} could not be opened ({type(error).__name__}: {error}); nothing was changed"
        ) from error
    if isinstance(catalog, SqlCatalog):
        return SqlVersions(catalog, files)
    if isinstance(catalog, RestCatalog):
        return RestVersions(catalog, files)
    kind = type(catalog).__name__.removesuffix("Catalog")
    raise UnsupportedTableError(
        f"tables of {kind} catalogs such as {name} are not changed by this version; nothing of them is touched",
        hint="Reach the tables through a REST or SQL catalog, or leave their snapshots to your engine.",
    )
