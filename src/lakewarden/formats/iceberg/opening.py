"""How the worker gets at this format: its catalogs and its reader."""

from __future__ import annotations

from collections.abc import Mapping

from lakewarden.formats.iceberg.catalog import IcebergCatalog, Vend
from lakewarden.formats.iceberg.reading import IcebergReader
from lakewarden.model.ports import Catalog, Files, Reader


def open_catalog(name: str, properties: Mapping[str, str], files: Files, vend: Vend) -> Catalog:
    return IcebergCatalog(name, properties, files.get, vend)


def reader() -> Reader:
    return IcebergReader()
