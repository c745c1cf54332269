"""How PyIceberg opens a catalog for us: as it would by itself, with patience that ends, and without making one."""

from __future__ import annotations

from collections.abc import Mapping
from threading import Lock
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog


class Connection:
    """One configured catalog, opened once: by whoever asks first, for every thread and every job.

    PyIceberg (close to a second of imports) comes with the first question asked. What cannot be opened is tried again
    by the next who asks.
    """

    def __init__(self, name: str, properties: Mapping[str, str]) -> None:
        self.name = name
        self.properties = dict(properties)
        self._opened: Catalog | None = None
        self._turn = Lock()

    def catalog(self) -> Catalog:
        """The open catalog. Raises what PyIceberg raises."""
        with self._turn:
            if self._opened is None:
                self._opened = connect(self.name, self.properties)
            return self._opened


def connect(name: str, properties: Mapping[str, str]) -> Catalog:
    """The catalog of these properties and of PyIceberg's own configuration. Raises what PyIceberg raises."""
    from pyiceberg.catalog import PY_CATALOG_IMPL, TYPE, URI, CatalogType, infer_catalog_type, load_catalog
    from pyiceberg.utils.config import Config, merge_config

    if PY_CATALOG_IMPL not in properties:
        found: Any = merge_config(Config().get_catalog_config(name) or {}, dict(properties))
        kind = CatalogType(str(found[TYPE]).lower()) if found.get(TYPE) else infer_catalog_type(name, found)
        if kind is CatalogType.REST and URI in found:
            from lakewarden.formats.iceberg.catalog.rest_timeouts import PatientRestCatalog

            return PatientRestCatalog(name, **found)
        if kind is CatalogType.SQL and URI in found:
            from lakewarden.formats.iceberg.catalog.sql import StandingSqlCatalog

            return StandingSqlCatalog(name, **found)
    return load_catalog(name, **properties)
