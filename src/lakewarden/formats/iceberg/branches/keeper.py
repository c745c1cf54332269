"""Which kind of branches an Iceberg catalog has: refs of its tables, or branches of its own."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

from lakewarden.formats.iceberg.branches.catalog_keeper import CatalogKeeper
from lakewarden.formats.iceberg.branches.nessie_api import BASE, NessieApi
from lakewarden.formats.iceberg.branches.ref_keeper import RefKeeper
from lakewarden.formats.iceberg.catalog.connection import Connection
from lakewarden.formats.iceberg.commit.versions import Versions
from lakewarden.formats.iceberg.metadata.known import KnownVersions
from lakewarden.model.branches import BranchKeeper, BranchPlace, BranchSight
from lakewarden.model.errors import CatalogUnavailableError, LakewardenError
from lakewarden.model.ports import Files
from lakewarden.model.table import TableState


class IcebergBranches:
    """The branches of one catalog. What kind they are is known when the catalog has answered."""

    def __init__(
        self, connection: Connection, known: KnownVersions, versions: Callable[[], Versions], files: Files
    ) -> None:
        self._connection = connection
        self._known = known
        self._files = files
        self._refs = RefKeeper(known, versions)

    def survey(self, states: Sequence[TableState]) -> Sequence[BranchPlace]:
        return self._kind().survey(states)

    def look(self, identifier: str) -> BranchPlace | None:
        return self._kind().look(identifier)

    def shows(self) -> str | None:
        return self._kind().shows()

    def still_read(self, place: BranchPlace, sight: BranchSight) -> str | None:
        return self._kind().still_read(place, sight)

    def unchanged_since(self, place: BranchPlace, sight: BranchSight, instant: datetime) -> bool | None:
        return self._kind().unchanged_since(place, sight, instant)

    def remove(
        self, place: BranchPlace, names: Collection[str], now: datetime, properties: Mapping[str, str]
    ) -> Mapping[str, int]:
        return self._kind().remove(place, names, now, properties)

    def restore(self, identifier: str, record: Mapping[str, Any], now: datetime) -> None:
        self._kind().restore(identifier, record, now)

    def _kind(self) -> BranchKeeper:
        try:
            catalog = self._connection.catalog()
        except LakewardenError:
            raise
        except Exception as error:
            raise CatalogUnavailableError(
                f"catalog {self._connection.name} could not be read ({type(error).__name__}: {error}); nothing was changed"
            ) from error
        if BASE not in catalog.properties:
            return self._refs
        return CatalogKeeper(self._connection.name, NessieApi(catalog), self._files)
