"""How the worker gets at this format: its catalogs and its reader."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from lakewarden.formats.paimon.catalog.catalog import PaimonCatalog
from lakewarden.formats.paimon.expiry.expirer import PaimonExpirer
from lakewarden.formats.paimon.manifests.fields import PaimonReader
from lakewarden.formats.paimon.partitions.expirer import PaimonPartitionExpirer
from lakewarden.model.expiry import Expirer
from lakewarden.model.partitions import PartitionExpirer
from lakewarden.model.ports import Catalog, Files, Reader

Vend = Callable[[str, Mapping[str, str]], None]


def open_catalog(name: str, properties: Mapping[str, str], files: Files, vend: Vend) -> Catalog:
    """A catalog. No credentials are vended: tables that a server hands out are left alone."""
    return PaimonCatalog(name, properties, files)


def expirer(name: str, properties: Mapping[str, str], files: Files) -> Expirer:
    return PaimonExpirer(files)


def partition_expirer(name: str, properties: Mapping[str, str], files: Files) -> PartitionExpirer:
    return PaimonPartitionExpirer(files)


def reader() -> Reader:
    return PaimonReader()
