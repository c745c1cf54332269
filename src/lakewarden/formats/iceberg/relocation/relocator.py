"""Iceberg snapshots on their way to another place and back: what is moved, how it is written there, how it is registered."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from lakewarden.foreign.json_text import integer
from lakewarden.formats.avro import read_avro
from lakewarden.formats.iceberg.catalog.connection import Connection
from lakewarden.formats.iceberg.metadata.document import GARBLED, manifest_list, parse, snapshots_of, table_state
from lakewarden.formats.iceberg.relocation.addresses import relocate_list, relocate_manifest
from lakewarden.formats.iceberg.relocation.deletes import relocate_deletes
from lakewarden.formats.iceberg.relocation.document import moved_document, origin_of, statistics_of
from lakewarden.model.errors import (
    CatalogUnavailableError,
    GcDisabledError,
    IncompleteManifestError,
    LakewardenError,
    NotFoundError,
    RestoreError,
    UnreadableMetadataError,
    UnsupportedTableError,
)
from lakewarden.model.table import parts_of
from lakewarden.model.tiers import AgedSnapshot, Move, MovedTable, Sizes
from lakewarden.model.verdict import Kind

DELETED = 2
COLD_METADATA = "the cold table's metadata"


class IcebergRelocator:
    """One configured catalog's tables. Only questions about a name ask the catalog itself."""

    def __init__(self, connection: Connection) -> None:
        self.name = connection.name
        self._catalog = connection.catalog

    def aged(self, document: bytes, uri: str, snapshots: Sequence[int]) -> tuple[str, tuple[AgedSnapshot, ...]]:
        """The table's location and these snapshots of a metadata document. Raises LakewardenError."""
        parsed = parse(document, uri)
        # What it cannot make sense of is refused here, so all that follows finds its fields.
        state = table_state(uri, uri, parsed)
        # A cold table says gc.enabled=false of itself, to keep others' hands off.
        if state.refusal is not None and state.refusal.code != GcDisabledError.code:
            raise UnsupportedTableError(state.refusal.message, hint=state.refusal.hint)
        found = {int(s["snapshot-id"]): s for s in snapshots_of(parsed)}
        if lost := sorted(set(snapshots) - found.keys()):
            raise IncompleteManifestError(f"{uri} does not have the snapshot {lost[0]} that was archived with it")
        statistics: dict[int, list[str]] = {}
        for name in ("statistics", "partition-statistics"):
            for number, entry in statistics_of(parsed, name, snapshots):
                statistics.setdefault(number, []).append(str(entry["statistics-path"]))
        return state.location, tuple(
            AgedSnapshot(
                number,
                int(found[number]["timestamp-ms"]),
                manifest_list(found[number]),
                tuple(statistics.get(number, ())),
            )
            for number in snapshots
        )

    def manifest(self, data: bytes, uri: str, move: Move, sizes: Sizes) -> bytes:
        return relocate_manifest(data, uri, move, sizes)

    def manifest_list(self, data: bytes, uri: str, move: Move, sizes: Sizes) -> bytes:
        return relocate_list(data, uri, move, sizes)

    def deletes(self, data: bytes, uri: str, move: Move) -> bytes | None:
        return relocate_deletes(data, uri, move)

    def document(self, sources: Sequence[bytes], previous: bytes | None, table: MovedTable) -> bytes:
        """The metadata at the new place: snapshots of `sources` (newest last), added to those of `previous`."""
        read = [parse(source, "archived metadata") for source in sources]
        before = None if previous is None else parse(previous, COLD_METADATA)
        try:
            return json.dumps(moved_document(read, before, table)).encode()
        except GARBLED as error:
            reason = (
                f"archived metadata lacks or garbles a field ({type(error).__name__}: {error}); nothing was written"
            )
            raise UnreadableMetadataError(reason) from error

    def described(self, document: bytes) -> tuple[Mapping[str, str], frozenset[int]]:
        """What a cold table's metadata says of its origin, and which snapshots it has. Raises LakewardenError."""
        parsed = parse(document, COLD_METADATA)
        try:
            return origin_of(parsed), frozenset(integer(snapshot["snapshot-id"]) for snapshot in snapshots_of(parsed))
        except GARBLED as error:
            raise UnreadableMetadataError(f"{COLD_METADATA} lacks or garbles a field ({error})") from error

    def files_of(self, data: bytes, uri: str) -> list[tuple[str, str]]:
        """What one manifest list or manifest names: address and kind of each manifest, or of each live file."""
        found: list[tuple[str, str]] = []
        try:
            for record in read_avro(data, uri, as_stored=True).records:
                if "manifest_path" in record:
                    found.append((str(record["manifest_path"]), Kind.MANIFEST))
                elif record["status"] != DELETED:
                    file = record["data_file"]
                    found.append((str(file["file_path"]), Kind.DELETE if file.get("content") else Kind.DATA))
        except GARBLED as error:
            raise IncompleteManifestError(f"{uri} lacks or garbles a field ({error}); nothing was touched") from error
        return found

    def new_location(self, identifier: str) -> str:
        """Where a table of that name would lie. Raises RestoreError if the name is taken, NotFoundError if it cannot be."""
        from pyiceberg.exceptions import NoSuchNamespaceError
        from pyiceberg.schema import Schema

        name = parts_of(identifier)[1:]
        try:
            # Asked for, because some servers make a namespace up when a table is put into it.
            self._catalog().load_namespace_properties(name[:-1])
            if self._catalog().table_exists(name):
                raise _taken(identifier)
            # A transaction that is never committed: it writes nothing, and a REST server says where the table would lie.
            staged = self._catalog().create_table_transaction(name, Schema())
            return str(staged.table_metadata.location)
        except LakewardenError:
            raise
        except NoSuchNamespaceError as error:
            raise NotFoundError(
                f"the namespace of {identifier} does not exist; nothing was restored",
                hint="Create the namespace in its catalog, then run the command again.",
            ) from error
        except Exception as error:
            raise self._unavailable(error) from error

    def register(self, identifier: str, metadata_uri: str) -> None:
        """Enter a table into the catalog. Raises RestoreError if the name is taken."""
        from pyiceberg.exceptions import TableAlreadyExistsError

        try:
            self._catalog().register_table(parts_of(identifier)[1:], metadata_uri)
        except TableAlreadyExistsError as error:
            raise _taken(identifier) from error
        except Exception as error:
            raise self._unavailable(error) from error

    def _unavailable(self, error: Exception) -> CatalogUnavailableError:
        return CatalogUnavailableError(
            f"catalog {self.name} did not take the table ({type(error).__name__}: {error}); it was not registered"
        )


def _taken(identifier: str) -> RestoreError:
    return RestoreError(
        f"there is a table {identifier} already; it was left alone",
        hint="Choose another name with --as: a restore never replaces a table.",
    )
