"""Warehouses of Paimon histories and the deployment that looks after them: configuration, clock, plans as plain values.

A site may have several catalogs, each a warehouse with a policy of its own: many courses of events, one Spark plan.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.formats.paimon.histories import History
from tests.formats.paimon.reading import all_refs, refs_of, rows_by_java, rows_by_pypaimon
from tests.support.configuration import Sections, copied
from tests.support.deployments import Deployed, Properties, Seen

EXPIRY, DELETION, ORPHANS, PARTITIONS = "snapshot-expiry", "physical-deletion", "orphans", "partition-expiry"

SECTIONS: Mapping[str, Mapping[str, Any]] = {
    # What tests plant is most of a table's files.
    "orphan_cleanup": {"grace_period_hours": 24, "max_orphan_share": 1.0, "rate_limit_ms": 0},
    "snapshot_expiry": {"retain_min": 1, "retain_max": 1, "retain_hours": 0},
    "physical_deletion": {"visibility_delay_hours": 1, "rate_limit_ms": 0},
    # What is old is most of a table here.
    "partition_expiry": {"max_drop_share": 1.0},
}


@dataclass(kw_only=True)
class Site(Deployed):
    """Catalogs by name, each with the directory of its warehouse, and what their configuration says."""

    names: tuple[str, ...] = ("lake",)
    format: str = "paimon"
    sections: Sections = field(default_factory=lambda: copied(SECTIONS))
    address: str = ""
    """Where the warehouses are, if not on this disk."""

    def warehouse(self, catalog: str = "lake") -> Path:
        return self.base / catalog

    def properties_of(self) -> Mapping[str, Properties]:
        addresses = {
            name: f"{self.address}{name}" if self.address else f"file://{self.warehouse(name)}" for name in self.names
        }
        return {name: {"warehouse": address} for name, address in addresses.items()}


def name_of(history: History, catalog: str = "lake") -> str:
    """The table's identifier in a site."""
    return f"{catalog}.{history.identifier}"


def check_rows(history: History, *, by_java: bool = True) -> None:
    """Every snapshot and tag that the table still has shows the rows it always did, to pypaimon and to Java."""
    expected = {ref: history.refs[ref] for ref in refs_of(history.location)}
    assert all_refs(history.location, rows_by_pypaimon) == expected, f"{history.name} by pypaimon"
    if by_java and history.opens_in_java:
        assert all_refs(history.location, rows_by_java) == expected, f"{history.name} by Java"


def orphan_rows(seen: Seen, histories: Iterable[History], catalog: str = "lake") -> dict[str, set[Path]]:
    """The planned orphans by history; directories as well as files."""
    return {history.name: seen.orphans(name_of(history, catalog)) for history in histories}
