"""Iceberg as the worker sees it: one object for each configured catalog, and one connection behind it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from lakewarden.formats.iceberg.branches.keeper import IcebergBranches
from lakewarden.formats.iceberg.catalog.catalog import IcebergCatalog
from lakewarden.formats.iceberg.catalog.connection import Connection
from lakewarden.formats.iceberg.commit.open import VersionsOf
from lakewarden.formats.iceberg.commit.trim import Trimmer
from lakewarden.formats.iceberg.compaction.compactor import IcebergCompactor
from lakewarden.formats.iceberg.expiry.expirer import IcebergExpirer
from lakewarden.formats.iceberg.manifests.reader import IcebergReader
from lakewarden.formats.iceberg.metadata.beside import newest_beside
from lakewarden.formats.iceberg.metadata.history import IcebergHistorian
from lakewarden.formats.iceberg.metadata.known import KnownVersions
from lakewarden.formats.iceberg.partitions.expirer import IcebergPartitionExpirer
from lakewarden.formats.iceberg.relocation.relocator import IcebergRelocator
from lakewarden.formats.iceberg.rewrite.rewriter import IcebergManifestRewriter
from lakewarden.model.format import Format, Vend
from lakewarden.model.ports import Files
from lakewarden.model.table import Pointer, TableState


class IcebergFormat:
    """One catalog. Every part asks the same connection, and takes from `known` what another part has read already."""

    format = "iceberg"

    def __init__(self, name: str, properties: Mapping[str, str], files: Files, vend: Vend) -> None:
        self.name = name
        self._files = files
        connection = Connection(name, properties)
        known = KnownVersions(files)
        versions = VersionsOf(connection, files)
        self._catalog = IcebergCatalog(connection, known, files.get, vend)
        self.reader = IcebergReader()
        self.expirer = IcebergExpirer(known, versions)
        self.historian = IcebergHistorian(known, Trimmer(versions).trim)
        self.partition_expirer = IcebergPartitionExpirer(files, known, versions)
        self.manifest_rewriter = IcebergManifestRewriter(files, known, versions)
        self.compactor = IcebergCompactor(files, known, versions)
        self.branch_keeper = IcebergBranches(connection, known, versions, files)
        self.relocator = IcebergRelocator(connection)

    def pointers(self) -> Sequence[Pointer]:
        """Every table and its current metadata file, read fresh. Raises CatalogUnavailableError."""
        return self._catalog.pointers()

    def pointer(self, identifier: str) -> Pointer | None:
        """One table and its current metadata file, read fresh. Raises CatalogUnavailableError."""
        return self._catalog.pointer(identifier)

    def beside(self, location: str) -> Sequence[str]:
        """The metadata files in the directory of one, newest first."""
        return newest_beside(self._files, location)

    def load(self, pointer: Pointer, cutoff: datetime) -> TableState:
        """The table at that pointer, with the states that were current since the cut-off as soft roots."""
        return self._catalog.load(pointer, cutoff)


def open_format(name: str, properties: Mapping[str, str], files: Files, vend: Vend) -> Format:
    return IcebergFormat(name, properties, files, vend)
