"""A Paimon catalog: who its tables are, where they lie, and whether they changed.

A filesystem catalog is a directory of databases and is listed here; other metastores are asked through pypaimon. The
tables themselves are read raw: what a library's model of a snapshot leaves out would protect nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from lakewarden.formats.paimon.catalog.metastore import metastore_table, metastore_tables
from lakewarden.formats.paimon.metadata.known import KnownTables
from lakewarden.formats.paimon.metadata.listing import BranchFiles, fingerprint, list_metadata, signs_of_commits
from lakewarden.formats.paimon.metadata.state import table_state, table_uuid, unread
from lakewarden.model.errors import (
    CatalogUnavailableError,
    LakewardenError,
    StoreUnavailableError,
    UnlistableError,
    UnreadableMetadataError,
    UnsupportedTableError,
)
from lakewarden.model.ports import Directory, Files
from lakewarden.model.table import Pointer, TableState, identifier_of, parts_of
from lakewarden.model.uri import FileUri

THREADS = 16
DATABASE_SUFFIX = ".db"
UNLISTABLE = "unlistable"
ODD = "odd"  # the mark of a name that is a link, or cannot be carried: nothing behind it is looked at


class PaimonCatalog:
    """The tables of one configured catalog."""

    def __init__(self, name: str, properties: Mapping[str, str], files: Files, known: KnownTables) -> None:
        self.name = name
        self._properties = dict(properties)
        self._files = files
        self._known = known
        self._listed: dict[str, tuple[str, tuple[BranchFiles, ...] | None]] = {}
        self._metastore = self._properties.get("metastore", "filesystem").strip().lower()

    def pointers(self) -> Sequence[Pointer]:
        """Every table and the fingerprint of its metadata files; no file is opened. Raises CatalogUnavailableError."""
        filesystem = self._metastore == "filesystem"
        odd: list[Pointer] = []
        places = self._directories(odd) if filesystem else metastore_tables(self.name, self._properties)
        with ThreadPoolExecutor(THREADS) as pool:
            found = pool.map(lambda place: self._pointer(*place, known=not filesystem), sorted(places))
            return [*(pointer for pointer in found if pointer is not None), *odd]

    def pointer(self, identifier: str) -> Pointer | None:
        """One table and the fingerprint of its metadata files. Raises CatalogUnavailableError."""
        if self._metastore != "filesystem":
            location = metastore_table(identifier, self._properties)
            return self._pointer(identifier, location, known=True) if location is not None else None
        _, database, table = parts_of(identifier)
        location = f"{self._warehouse()}{database}{DATABASE_SUFFIX}/{table}/"
        return self._pointer(identifier, location, known=False) if self._exists(location) else None

    def beside(self, location: str) -> Sequence[str]:
        """A table's own place, if anything is left there. Raises StoreUnavailableError."""
        found = self._files.entries(location.rpartition("#")[0])
        return [location] if found.files or found.directories else []

    def load(self, pointer: Pointer) -> TableState:
        """The table at that pointer, or as it is now if it has moved on; refused where it cannot be understood."""
        location, _, seen = pointer.metadata_location.rpartition("#")
        try:
            if seen == ODD:
                raise UnlistableError(
                    f"{location} is a link, a special file, or has a name that cannot be carried, so what tables lie "
                    "there and what they need is unknown; nothing in it was touched"
                )
            # The listing behind the pointer may serve as the first of the two around the reading.
            mark, branches = self._listed.pop(location, ("", None))
            if branches is not None and mark == seen:
                table = self._known.now(location, branches)
            else:
                table = self._known.at(pointer.metadata_location)
            return self._served(table_state(pointer.identifier, table, table_uuid(table)))
        except LakewardenError as error:
            return unread(pointer.identifier, location, seen).refused(error.refusal())
        except (ValueError, TypeError, KeyError, AttributeError, ArithmeticError, RecursionError) as error:
            reason = f"the metadata of {location} is garbled ({type(error).__name__}: {error}); nothing was touched"
            return unread(pointer.identifier, location, seen).refused(UnreadableMetadataError(reason).refusal())

    def _served(self, state: TableState) -> TableState:
        """The table; refused if a server keeps its snapshots, tags and branches, of which files are only a copy."""
        if self._metastore != "rest" or state.refusal is not None:
            return state
        message = (
            f"catalog {self.name} is a REST server that manages snapshots, tags and branches of {state.identifier}"
        )
        return state.refused(UnsupportedTableError(f"{message}; nothing was touched").refusal())

    def _pointer(self, identifier: str, location: str, *, known: bool) -> Pointer | None:
        """The table in a directory; None if there is none. `known`: the metastore says that it is a table."""
        try:
            branches = list_metadata(location, self._files)
        except StoreUnavailableError:
            # One table that cannot be listed is refused when it is loaded; the others go on.
            return Pointer(identifier, f"{location}#{UNLISTABLE}")
        # A directory without a schema is no table: nothing is known of it, and nothing in it is ever touched. One with
        # snapshots or manifests is a table that lost its schema. It may need files anywhere: load() refuses it.
        if not known and not branches[0].schema and not self._lost_its_schema(location, branches):
            return None
        mark = fingerprint(branches)
        self._listed[location] = (mark, branches)
        witness = next((file.uri for file in branches[0]), None)
        return Pointer(identifier, f"{location}#{mark}", witness)

    def _lost_its_schema(self, location: str, branches: tuple[BranchFiles, ...]) -> bool:
        """Whether a directory without a schema was a table. Raises CatalogUnavailableError for one that has just gone."""
        if any(branches[0]) or branches[0].hints or branches[1:]:
            return True
        self._check_not_vanished(location, self._files.places(location))
        return bool(signs_of_commits(location, self._files))

    def _directories(self, odd: list[Pointer]) -> Iterable[tuple[str, str]]:
        """Every directory of every database, as (identifier, location): tables, and what else somebody put there.

        What is no directory and no file goes to `odd`, each with a pointer of its own that loads refused: one stray link
        in a database says nothing about the tables beside it.
        """
        warehouse = self._warehouse()
        found = self._files.places(warehouse)
        if found == Directory((), ()) and not self._exists(warehouse):
            raise CatalogUnavailableError(
                f"the warehouse {warehouse} of catalog {self.name} is not there; nothing was planned or changed",
                hint="Correct `warehouse` in the catalog's properties, or mount the disk that should hold it.",
            )
        odd += [
            self._odd(warehouse, (name.removesuffix(DATABASE_SUFFIX),), name) for name in found.odd if _database(name)
        ]
        databases = [name for name in found.directories if _database(name)]
        with ThreadPoolExecutor(THREADS) as pool:
            listings = list(pool.map(lambda name: self._files.places(f"{warehouse}{name}/"), databases))
        tables: list[tuple[str, str]] = []
        for directory, listing in zip(databases, listings, strict=True):
            location, database = f"{warehouse}{directory}/", directory.removesuffix(DATABASE_SUFFIX)
            self._check_not_vanished(location, listing)
            tables += [
                (identifier_of(self.name, (database, table)), f"{location}{table}/") for table in listing.directories
            ]
            odd += [self._odd(location, (database, name), name) for name in listing.odd]
        return tables

    def _odd(self, directory: str, parts: tuple[str, ...], name: str) -> Pointer:
        return Pointer(identifier_of(self.name, parts), f"{directory}{name}/#{ODD}")

    def _check_not_vanished(self, location: str, listing: Directory) -> None:
        """Raise for a directory that was listed a moment ago and is not there now: dropped, or lost with its mount."""
        if listing == Directory((), ()) and not self._exists(location):
            raise CatalogUnavailableError(
                f"{location} of catalog {self.name} vanished while it was looked at; nothing was planned or changed"
            )

    def _warehouse(self) -> str:
        try:
            return FileUri.parse(self._properties["warehouse"]).as_prefix()
        except (KeyError, ValueError) as error:
            lacks = "no warehouse" if isinstance(error, KeyError) else f"no usable warehouse ({error})"
            raise CatalogUnavailableError(
                f"catalog {self.name} has {lacks}; nothing was planned or changed",
                hint="Set `warehouse` in the catalog's properties to an absolute path or address.",
            ) from error

    def _exists(self, directory: str) -> bool:
        """Whether an empty directory is there: its parent knows. A missing one must not read as "no tables"."""
        parent, _, name = directory.rstrip("/").rpartition("/")
        try:
            return name in self._files.places(f"{parent}/").directories
        except (StoreUnavailableError, ValueError):
            return False


def _database(name: str) -> bool:
    return name.endswith(DATABASE_SUFFIX) and name != DATABASE_SUFFIX
