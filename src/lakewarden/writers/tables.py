"""What the table that a writer commits to requires: by the table itself, by a Spark session, or by the configuration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from lakewarden.model.errors import ArgumentError
from lakewarden.model.lineage import Requirements
from lakewarden.model.table import TableState, identifier_of, parts_of


class Fleet(Protocol):
    """A configuration, as far as writers ask it: `[lineage]` with its overrides, and the tables of its catalogs."""

    def requirements_for(self, identifier: str, table_properties: Mapping[str, str]) -> Requirements: ...

    def table(self, identifier: str) -> TableState:
        """Raises LakewardenError for a table that no configured catalog has."""


def rules_of(table: object, given: Requirements | None, spark: Any, fleet: Fleet | None) -> Requirements:
    """The rules for a commit to a table. Those that were `given` stand in for the configuration's. Raises ArgumentError."""
    identifier, properties = _known(table, spark, fleet)
    if given is not None or fleet is None:
        return (given or Requirements()).under(properties)
    return fleet.requirements_for(identifier, properties)


def _known(table: object, spark: Any, fleet: Fleet | None) -> tuple[str, Mapping[str, str]]:
    """A table's identifier, empty where nobody says it, and its properties."""
    if table is None:
        return "", {}
    if isinstance(table, str):
        return table, _properties_by_name(table, spark, fleet)
    if isinstance(table, Mapping):
        return "", table
    properties = getattr(table, "properties", None)
    if isinstance(properties, Mapping):
        return _identifier(table), properties
    raise ArgumentError(
        "lineage: table must be a table of PyIceberg's, the properties of a table, or a name that the session or the "
        f"configuration knows, and not {table!r}; nothing was committed",
        argument="table",
    )


def _properties_by_name(name: str, spark: Any, fleet: Fleet | None) -> Mapping[str, str]:
    if spark is not None:
        return {row["key"]: row["value"] for row in asked(spark, "SHOW TBLPROPERTIES {}", "table", name)}
    if fleet is not None:
        return fleet.table(name).properties
    raise ArgumentError(
        f"lineage: table {name!r} is a name, and no Spark session and no configuration is there that knows it; "
        "nothing was committed",
        argument="table",
    )


def _identifier(table: object) -> str:
    """What a table of PyIceberg's is called in overrides: its catalog's name, and its own."""
    name, catalog = getattr(table, "name", None), getattr(getattr(table, "catalog", None), "name", None)
    parts = name() if callable(name) else None
    return identifier_of(catalog, parts) if isinstance(catalog, str) and isinstance(parts, tuple) else ""


def asked(spark: Any, query: str, argument: str, name: str) -> list[Any]:
    """What a Spark session answers to a query of a table (`{}`) that an argument names. Raises ArgumentError if nothing."""
    quoted = ".".join("`" + part.replace("`", "``") + "`" for part in parts_of(name))
    try:
        return list(spark.sql(query.format(quoted)).collect())
    except Exception as error:  # whatever a session raises, which depends on how it is reached
        words = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise ArgumentError(
            f"lineage: {argument} names {name!r}, of which the Spark session says: {words}; nothing was committed",
            argument=argument,
        ) from error
