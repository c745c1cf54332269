"""Which catalogs can be changed without losing what others do at the same time, and how."""

from __future__ import annotations

from lakewarden.formats.iceberg.catalog.connection import Connection
from lakewarden.formats.iceberg.commit.rest_versions import RestVersions
from lakewarden.formats.iceberg.commit.versions import SqlVersions, Versions
from lakewarden.model.errors import CatalogUnavailableError, LakewardenError, UnsupportedTableError
from lakewarden.model.ports import Files


class VersionsOf:
    """The tables of a catalog as something that can be changed, for every job the same."""

    def __init__(self, connection: Connection, files: Files) -> None:
        self._connection = connection
        self._files = files
        self._versions: Versions | None = None

    def __call__(self) -> Versions:
        """Raises UnsupportedTableError for a kind of catalog that nobody has tried."""
        # Two threads that ask first may both make one; they are alike, and hold nothing but the one connection.
        if self._versions is None:
            self._versions = self._open()
        return self._versions

    def _open(self) -> Versions:
        from pyiceberg.catalog.rest import RestCatalog
        from pyiceberg.catalog.sql import SqlCatalog

        name = self._connection.name
        try:
            catalog = self._connection.catalog()
        except LakewardenError:
            raise
        except Exception as error:
            raise CatalogUnavailableError(
                f"catalog {name} could not be opened ({type(error).__name__}: {error}); nothing was changed"
            ) from error
        if isinstance(catalog, SqlCatalog):
            return SqlVersions(catalog, self._files)
        if isinstance(catalog, RestCatalog):
            return RestVersions(catalog, self._files)
        kind = type(catalog).__name__.removesuffix("Catalog")
        raise UnsupportedTableError(
            f"tables of {kind} catalogs such as {name} are not changed by this version; nothing of them is touched",
            hint="Reach the tables through a REST or SQL catalog, or leave their snapshots to your engine.",
        )
