"""How PyIceberg opens a catalog for us: as it would by itself, and a REST catalog with patience that ends."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog


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
    return load_catalog(name, **properties)
