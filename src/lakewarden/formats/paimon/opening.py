"""How the worker gets at this format: its catalogs and its reader."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from lakewarden.formats.paimon.catalog import PaimonCatalog
from lakewarden.formats.paimon.expiry import PaimonExpirer
from lakewarden.formats.paimon.partition_expirer import PaimonPartitionExpirer
from lakewarden.formats.paimon.reading import PaimonReader
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
