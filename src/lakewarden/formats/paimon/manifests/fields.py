"""Which fields of Paimon's manifest lists, manifests and index manifests matter."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import datetime

from lakewarden.formats.paimon.metadata.names import NAMES
from lakewarden.model.errors import UnsupportedTableError
from lakewarden.model.table import TableState

# Column of ours -> the format's. Fields at the end of a row are absent in files of older versions.
LIST_FIELDS = {
    "path": "_FILE_NAME",
    "length": "_FILE_SIZE",
    "added": "_NUM_ADDED_FILES",
    "deleted": "_NUM_DELETED_FILES",
    "extra": "_EXTRA_FILES",
}
MANIFEST_FIELDS = {
    "path": "_FILE._FILE_NAME",
    "status": "_KIND",
    "extra": "_FILE._EXTRA_FILES",
    "external": "_FILE._EXTERNAL_PATH",
}
PARTITION_FIELDS = {"partition": "_PARTITION", "status": "_KIND", "created": "_FILE._CREATION_TIME"}
INDEX_FIELDS = {"path": "_FILE_NAME", "status": "_KIND", "external": "_EXTERNAL_PATH"}
INDEX_MARK = "_INDEX_TYPE"
OPTIONAL = frozenset({"extra", "external", "created"})


class PaimonReader:
    """The Avro side of the format, carried to executors.

    Entries of both kinds name files that must stay: what a later commit dropped is still read by earlier snapshots.
    """

    format = "paimon"
    names = NAMES
    by_name = True
    keeps_deleted = True

    def recogniser(
        self, states: Iterable[TableState], since: datetime, abandoned: Collection[str]
    ) -> Callable[..., dict[str, object] | None]:
        """Nothing to recognise: all metadata of a table lies in its own directory, and all of it is read."""
        return _nothing

    def list_columns(self, names: Iterable[str]) -> Mapping[str, str]:
        return _pick(LIST_FIELDS, set(names), "manifest list")

    def manifest_columns(self, names: Iterable[str]) -> Mapping[str, str]:
        present = set(names)
        if INDEX_MARK in present:
            return _pick(INDEX_FIELDS, present, "index manifest")
        return _pick(MANIFEST_FIELDS, present, "manifest")

    def partition_columns(self, names: Iterable[str]) -> Mapping[str, str]:
        return _pick(PARTITION_FIELDS, set(names), "manifest")


def _nothing(*_: object, **__: object) -> None:
    return None


def _pick(wanted: Mapping[str, str], present: Collection[str], what: str) -> dict[str, str]:
    for column, name in wanted.items():
        if name not in present and column not in OPTIONAL:
            raise UnsupportedTableError(f"a {what} has no field {name}")
    return {column: name for column, name in wanted.items() if name in present}
