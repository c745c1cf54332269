"""How the worker gets at this format: its catalogs and its reader."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from threading import Lock

from lakewarden.formats.iceberg.catalog.catalog import IcebergCatalog, Vend
from lakewarden.formats.iceberg.commit.open import open_versions
from lakewarden.formats.iceberg.commit.versions import Versions
from lakewarden.formats.iceberg.expiry.expirer import IcebergExpirer
from lakewarden.formats.iceberg.manifests.fields import IcebergReader
from lakewarden.formats.iceberg.manifests.survey import IcebergManifestRewriter
from lakewarden.formats.iceberg.partitions.expirer import IcebergPartitionExpirer
from lakewarden.formats.iceberg.relocation.relocator import IcebergRelocator
from lakewarden.model.expiry import Expirer
from lakewarden.model.manifests import ManifestRewriter
from lakewarden.model.partitions import PartitionExpirer
from lakewarden.model.ports import Catalog, Files, Reader
from lakewarden.model.tiers import Relocator


def open_catalog(name: str, properties: Mapping[str, str], files: Files, vend: Vend) -> Catalog:
    return IcebergCatalog(name, properties, files.get, vend)


def expirer(name: str, properties: Mapping[str, str], files: Files) -> Expirer:
    return IcebergExpirer(files, _opener(name, properties, files))


def partition_expirer(name: str, properties: Mapping[str, str], files: Files) -> PartitionExpirer:
    return IcebergPartitionExpirer(files, _opener(name, properties, files))


def manifest_rewriter(name: str, properties: Mapping[str, str], files: Files) -> ManifestRewriter:
    return IcebergManifestRewriter(files, _opener(name, properties, files))


def reader() -> Reader:
    return IcebergReader()


def relocator(name: str, properties: Mapping[str, str], files: Files) -> Relocator:
    return IcebergRelocator(name, properties, files)


def _opener(name: str, properties: Mapping[str, str], files: Files) -> Callable[[], Versions]:
    """What opens a catalog when it is first to be changed, and once."""
    opened: list[Versions] = []
    turn = Lock()

    def versions() -> Versions:
        with turn:
            if not opened:
                opened.append(open_versions(name, properties, files))
        return opened[0]

    return versions
