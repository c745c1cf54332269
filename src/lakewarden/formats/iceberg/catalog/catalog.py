"""An Iceberg catalog through PyIceberg: who its tables are and where their metadata points.

PyIceberg finds the pointer; the metadata itself is read raw, because a REST server may answer with a
partial view and a library with the fields it knows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from lakewarden.formats.iceberg.catalog.connection import Connection
from lakewarden.formats.iceberg.catalog.listing import Found, Name, tables_of
from lakewarden.formats.iceberg.catalog.rows import Asked, Row, asked_rows, table_row, table_rows
from lakewarden.formats.iceberg.metadata.document import GARBLED, PATH_PROPERTIES, table_state, unread
from lakewarden.formats.iceberg.metadata.known import KnownVersions
from lakewarden.formats.iceberg.metadata.recent import recent_states
from lakewarden.model.errors import (
    CatalogUnavailableError,
    LakewardenError,
    NessieServedError,
    PartialViewError,
    PointerMissingError,
    UnreadableMetadataError,
)
from lakewarden.model.format import Vend
from lakewarden.model.table import Pointer, TableState, identifier_of, name_within, parts_of

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog as PyIcebergCatalog
    from pyiceberg.table import Table

# What a server says of a table's store: the properties that PyIceberg's own FileIO would use.
STORE_PROPERTIES = ("s3.", "gcs.", "adls.", "client.")


class IcebergCatalog:
    """The tables of one configured catalog, asked over its connection."""

    def __init__(self, connection: Connection, known: KnownVersions, read: Callable[[str], bytes], vend: Vend) -> None:
        self.name = connection.name
        self._connection = connection
        self._known = known
        self._read = read
        self._vend = vend
        self._before: Mapping[Name, Found] = {}
        self._previous: Mapping[str, str] = {}
        self._told: Asked | None = None
        self._pointers: Sequence[Pointer] = ()

    def pointers(self) -> Sequence[Pointer]:
        """Every table and its current metadata file, read fresh. Raises CatalogUnavailableError."""
        from pyiceberg.catalog.sql import SqlCatalog

        with self._answering():
            catalog = self._connection.catalog()
            if isinstance(catalog, SqlCatalog):
                return self._of_rows(asked_rows(catalog))
            return self._sorted(self._answers(catalog))

    def _sorted(self, found: Iterable[tuple[Name, str]]) -> list[Pointer]:
        pointers = (Pointer(identifier_of(self.name, name), at) for name, at in dict(found).items())
        return sorted(pointers, key=attrgetter("identifier"))

    def _of_rows(self, told: Asked) -> Sequence[Pointer]:
        """All pointers of a SQL catalog: asked for anew before every batch, and made anew only where a row changed."""
        if told != self._told:
            rows = list(table_rows(told))
            self._previous = {identifier_of(self.name, row.name): row.previous for row in rows if not row.location}
            self._told, self._pointers = told, self._sorted((row.name, row.location) for row in rows)
        return self._pointers

    def pointer(self, identifier: str) -> Pointer | None:
        """One table and its current metadata file, read fresh. Raises CatalogUnavailableError."""
        from pyiceberg.catalog.sql import SqlCatalog

        with self._answering():
            catalog = self._connection.catalog()
            if isinstance(catalog, SqlCatalog):
                found: Row | Found | None = table_row(catalog, name_within(identifier))
            else:
                found = self._table(catalog, parts_of(identifier)[1:])
        return Pointer(identifier, found.location) if found is not None else None

    @contextmanager
    def _answering(self) -> Iterator[None]:
        """What goes wrong with the catalog, in the user's words."""
        try:
            yield
        except LakewardenError:
            raise
        except Exception as error:
            # SQLAlchemy adds lines with the statement and an address of its manual.
            why = next(iter(str(error).splitlines()), "")
            raise CatalogUnavailableError(
                f"catalog {self.name} could not be read ({type(error).__name__}: {why}); nothing was planned or changed"
            ) from error

    def load(self, pointer: Pointer, cutoff: datetime) -> TableState:
        """The table at that pointer, with the states that were current since the cut-off as soft roots."""
        if not pointer.metadata_location:
            return self._unseen(pointer.identifier)
        try:
            version = self._known.fresh(pointer.metadata_location)
            state = table_state(pointer.identifier, pointer.metadata_location, version.document)
            state = replace(state, digest=version.digest)
            return self._with_recent(self._served(state), version.document, cutoff)
        except LakewardenError as error:
            return self._served(unread(pointer.identifier, pointer.metadata_location).refused(error.refusal()))

    def _unseen(self, identifier: str) -> TableState:
        """A table of which its catalog knows the name alone, and perhaps where its metadata was before."""
        before = self._previous.get(identifier, "")
        last = f" (before it was {before})" if before else ""
        refusal = PointerMissingError(
            f"{identifier} is in its catalog without a metadata file{last}: what it needs cannot be seen; nothing of it was touched"
        ).refusal()
        known = unread(identifier, before).roots if before else ()
        return TableState(identifier, "iceberg", "", "", "", known).refused(refusal)

    def _with_recent(self, state: TableState, document: Mapping[str, Any], cutoff: datetime) -> TableState:
        """The table with what its recent states reach; refused if one of those cannot be understood."""
        try:
            lists, files = recent_states(state, document, self._read, cutoff)
        except LakewardenError as error:
            return state if state.refusal else state.refused(error.refusal())
        except GARBLED as error:
            reason = f"an earlier metadata file of {state.identifier} lacks or garbles a field ({error}); nothing was touched"
            return state if state.refusal else state.refused(UnreadableMetadataError(reason).refusal())
        return replace(state, manifest_lists=(*state.manifest_lists, *lists), files=(*state.files, *files))

    def _served(self, state: TableState) -> TableState:
        """The table; refused if its catalog does not show all that it knows of it."""
        try:
            self._check_served()
        except NessieServedError as error:
            # Nessie itself serves gc.enabled=false: switching that on, as its refusal advises, would be no way out.
            return state.refused(error.refusal())
        except PartialViewError as error:
            return state if state.refusal else state.refused(error.refusal())
        return state

    def _check_served(self) -> None:
        catalog = self._connection.catalog()
        if self._connection.properties.get("snapshot-loading-mode", "").lower() == "refs":
            raise PartialViewError(f"catalog {self.name} loads only the snapshots that refs name")
        if any(key.startswith("nessie.") for key in getattr(catalog, "properties", {})):
            raise NessieServedError(
                f"catalog {self.name} is served by Nessie, whose other branches are not visible here"
            )

    def _answers(self, catalog: PyIcebergCatalog) -> Iterator[tuple[Name, str]]:
        """Pointers of a catalog that only answers table by table."""
        self._before = tables_of(catalog, lambda name: self._table(catalog, name), self._before)
        return ((name, found.location) for name, found in self._before.items())

    def _table(self, catalog: PyIcebergCatalog, name: Name) -> Found | None:
        """A table and its metadata file; None for a table that was dropped since it was listed."""
        from pyiceberg.exceptions import NoSuchTableError

        try:
            table = catalog.load_table(name)
        except NoSuchTableError as error:
            if not _listed(catalog, name):
                # It protects nothing any more.
                return None
            # A server answers the same for a table whose metadata file is lost: its data files are still needed.
            raise self._unloaded(name, error) from error
        except Exception as error:
            raise self._unloaded(name, error) from error
        if not table.metadata_location:
            raise self._unloaded(name, ValueError("it names no metadata file"))
        self._pass_on_credentials(table)
        return Found(table.metadata_location, str(table.metadata.table_uuid))

    def _unloaded(self, name: Name, error: Exception) -> CatalogUnavailableError:
        """Where the table lies is unknown, so it may need files of any root: nothing can be planned beside it."""
        return CatalogUnavailableError(
            f"catalog {self.name} could not be read: it lists {'.'.join(name)} but does not load it "
            f"({type(error).__name__}: {error}); nothing was planned or changed",
            hint="Repair this table, or drop it from its catalog if it is lost, then run the command again.",
        )

    def _pass_on_credentials(self, table: Table) -> None:
        """Tell the stores what the server handed out, with what the configuration adds to it (often the endpoint)."""
        store = {k: str(v) for k, v in table.io.properties.items() if k.startswith(STORE_PROPERTIES)}
        if any(self._connection.properties.get(key) != value for key, value in store.items()):
            for place in {table.metadata.location, *(table.properties.get(p) for p in PATH_PROPERTIES)}:
                if place:
                    self._vend(place, store)


def _listed(catalog: PyIcebergCatalog, name: Name) -> bool:
    from pyiceberg.exceptions import NoSuchNamespaceError

    try:
        return name in catalog.list_tables(name[:-1])
    except NoSuchNamespaceError:
        return False
