"""Paimon as the worker sees it: one object for each configured catalog."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from lakewarden.formats.paimon.branches.keeper import PaimonBranches
from lakewarden.formats.paimon.catalog.catalog import PaimonCatalog
from lakewarden.formats.paimon.compaction.compactor import PaimonCompactor
from lakewarden.formats.paimon.expiry.expirer import PaimonExpirer
from lakewarden.formats.paimon.manifests.reader import PaimonReader
from lakewarden.formats.paimon.metadata.history import PaimonHistorian
from lakewarden.formats.paimon.metadata.known import KnownTables
from lakewarden.formats.paimon.partitions.expirer import PaimonPartitionExpirer
from lakewarden.model.format import Format, Vend
from lakewarden.model.ports import Files
from lakewarden.model.table import Pointer, TableState


class PaimonFormat:
    """One catalog. Every part takes from `known` the tables that another part has read already.

    Paimon's own jobs look after manifests, and its snapshots cannot be moved to another place.
    """

    format = "paimon"
    manifest_rewriter = None
    relocator = None

    def __init__(self, name: str, properties: Mapping[str, str], files: Files) -> None:
        self.name = name
        known = KnownTables(files)
        self._catalog = PaimonCatalog(name, properties, files, known)
        self.reader = PaimonReader()
        self.expirer = PaimonExpirer(files, known)
        self.historian = PaimonHistorian(known)
        self.partition_expirer = PaimonPartitionExpirer(files, known)
        self.branch_keeper = PaimonBranches(known)
        self.compactor = PaimonCompactor(files, known)

    def pointers(self) -> Sequence[Pointer]:
        """Every table and the fingerprint of its metadata files; no file is opened. Raises CatalogUnavailableError."""
        return self._catalog.pointers()

    def pointer(self, identifier: str) -> Pointer | None:
        """One table and the fingerprint of its metadata files. Raises CatalogUnavailableError."""
        return self._catalog.pointer(identifier)

    def beside(self, location: str) -> Sequence[str]:
        """The table's directory, as it is now, if anything is left in it."""
        return self._catalog.beside(location)

    def load(self, pointer: Pointer, cutoff: datetime) -> TableState:
        """The table at that pointer, or as it is now if it has moved on; refused where it cannot be understood."""
        return self._catalog.load(pointer)


def open_format(name: str, properties: Mapping[str, str], files: Files, vend: Vend) -> Format:
    """A catalog. No credentials are vended: tables that a server hands out are left alone."""
    return PaimonFormat(name, properties, files)
