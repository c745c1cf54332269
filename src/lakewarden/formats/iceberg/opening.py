"""How the worker gets at this format: its catalogs and its reader."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from lakewarden.formats.iceberg.catalog import IcebergCatalog, Vend
from lakewarden.formats.iceberg.reading import IcebergReader
from lakewarden.model.ports import Catalog, Reader


def open_catalog(name: str, properties: Mapping[str, str], read: Callable[[str], bytes], vend: Vend) -> Catalog:
    return IcebergCatalog(name, properties, read, vend)


def reader() -> Reader:
    return IcebergReader()
