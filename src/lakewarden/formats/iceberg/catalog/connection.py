"""How PyIceberg opens a catalog for us: as it would by itself, with patience that ends, and without making one."""

from __future__ import annotations

from collections.abc import Mapping
from threading import Lock
from typing import TYPE_CHECKING, Any

from lakewarden.model.errors import ConfigError

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog, CatalogType


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
    """The catalog of these properties and of PyIceberg's own configuration.

    Raises ConfigError for properties that describe no catalog, and what PyIceberg raises.
    """
    from pyiceberg.catalog import PY_CATALOG_IMPL, URI, load_catalog
    from pyiceberg.catalog import CatalogType as Kind
    from pyiceberg.exceptions import NotInstalledError
    from pyiceberg.utils.config import Config, merge_config

    if PY_CATALOG_IMPL not in properties:
        found: Any = merge_config(Config().get_catalog_config(name) or {}, dict(properties))
        kind = _kind(name, found)
        needs_uri = kind in (None, Kind.REST, Kind.SQL, Kind.HIVE)
        if needs_uri and not found.get(URI):
            raise _mistaken(name, "lacks `uri`", f"type = {kind.value!r} needs it" if kind else "PyIceberg needs it")
        if kind is Kind.REST and URI in found:
            from lakewarden.formats.iceberg.catalog.rest_timeouts import PatientRestCatalog

            return PatientRestCatalog(name, **found)
        if kind is Kind.SQL and URI in found:
            from lakewarden.formats.iceberg.catalog.sql import StandingSqlCatalog

            return StandingSqlCatalog(name, **found)
    try:
        return load_catalog(name, **properties)
    except NotInstalledError as error:
        raise _mistaken(name, "is of a type that needs more than is installed", str(error)) from error


def _kind(name: str, found: Mapping[str, Any]) -> CatalogType | None:
    """The type that a catalog says or that its address shows; None where it says neither."""
    from pyiceberg.catalog import TYPE, URI, CatalogType, infer_catalog_type

    said = found.get(TYPE)
    try:
        if said:
            return CatalogType(str(said).lower())
        return infer_catalog_type(name, dict(found)) if found.get(URI) else None
    except ValueError as error:
        allowed = f"allowed: {', '.join(sorted(kind.value for kind in CatalogType))}"
        raise _mistaken(
            name, f"has type = {said!r}" if said else "does not say its type, nor does its uri", allowed
        ) from error


def _mistaken(name: str, what: str, why: str) -> ConfigError:
    return ConfigError(
        f"catalog {name} {what} ({why}); nothing was planned or changed",
        hint=f"Correct properties of [catalogs.{name}].",
    )
