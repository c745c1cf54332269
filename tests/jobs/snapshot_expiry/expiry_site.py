"""Iceberg catalogs whose snapshots expire: their documents, rows and files, and a deployment with short delays."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.table import Table

from lakewarden.model.run import RunResult
from tests.support.configuration import Sections, copied
from tests.support.deployments import Deployed, Seen, sqlite_properties
from tests.support.lakes import local_path

EXPIRY, DELETION, ORPHANS = "snapshot-expiry", "physical-deletion", "orphans"
HOUR_MS = 3_600_000

SECTIONS: Mapping[str, Mapping[str, Any]] = {
    "orphan_cleanup": {"grace_period_hours": 24, "max_orphan_share": 1.0, "rate_limit_ms": 0},
    "snapshot_expiry": {"retain_hours": 1},
    "physical_deletion": {"visibility_delay_hours": 1, "rate_limit_ms": 0},
}
Rows = tuple[tuple[Any, ...], ...]


@dataclass(kw_only=True)
class Site(Deployed):
    """Iceberg catalogs whose snapshots expire soon, and what a test asks of their tables."""

    sections: Sections = field(default_factory=lambda: copied(SECTIONS))

    @classmethod
    def on_sqlite(cls, base: Path, **more: Any) -> Site:
        """One catalog, `lake`, on this disk."""
        base.mkdir(parents=True, exist_ok=True)
        return cls(base, {"lake": sqlite_properties(base)}, **more)

    def catalog(self, name: str = "lake") -> Catalog:
        return load_catalog(name, **self.catalogs[name])

    def delete_released(self, *select: str) -> RunResult:
        """Physical deletion, when the released files have waited long enough."""
        self.later(2)
        try:
            return self.run(DELETION, *select)
        finally:
            self.later(-2)

    def orphans_at_once(self) -> Seen:
        """An orphan plan without any grace: nothing but the current metadata and the ledger protects a file."""
        kept = dict(self.sections["orphan_cleanup"])
        self.sections["orphan_cleanup"]["grace_period_hours"] = 0
        self.close()
        try:
            return self.plan(ORPHANS, unsafe_short_grace=list(self.uuids()))
        finally:
            self.sections["orphan_cleanup"] = kept
            self.close()

    def uuids(self) -> Iterator[str]:
        """Every table's."""
        for name in self.catalogs:
            catalog = self.catalog(name)
            for namespace in catalog.list_namespaces():
                for table in catalog.list_tables(namespace):
                    yield str(catalog.load_table(table).metadata.table_uuid)


def document_of(table: Table) -> dict[str, Any]:
    """The metadata that the catalog points at, raw."""
    raw = local_path(table.metadata_location).read_bytes()
    found: dict[str, Any] = json.loads(gzip.decompress(raw) if raw.startswith(b"\x1f\x8b") else raw)
    return found


def edit(table: Table, document: Mapping[str, Any]) -> None:
    """Put another document in the place of the current one, as no writer does: only tests may turn back time."""
    path = local_path(table.metadata_location)
    raw = json.dumps(document).encode()
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)  # Hadoop's, of what was there
    path.write_bytes(gzip.compress(raw) if path.read_bytes().startswith(b"\x1f\x8b") else raw)


def backdate(table: Table, now_ms: int, apart_ms: int = HOUR_MS) -> list[int]:
    """Let the table's snapshots lie an hour apart, the newest half an hour ago; their ids, oldest first."""
    document = document_of(table)
    snapshots = document.get("snapshots") or []
    order = sorted(range(len(snapshots)), key=lambda place: (snapshots[place]["timestamp-ms"], place))
    for age, place in enumerate(reversed(order)):
        snapshots[place]["timestamp-ms"] = now_ms - age * apart_ms - apart_ms // 2
    log = document.get("snapshot-log") or []
    for age, entry in enumerate(reversed(log)):
        entry["timestamp-ms"] = now_ms - age * apart_ms - apart_ms // 2
    edit(table, document)
    return [int(snapshots[place]["snapshot-id"]) for place in order]


def snapshot_ids(table: Table) -> set[int]:
    return {int(snapshot["snapshot-id"]) for snapshot in document_of(table).get("snapshots") or []}


def refs_of(table: Table) -> dict[str, int]:
    return {name: int(ref["snapshot-id"]) for name, ref in (document_of(table).get("refs") or {}).items()}


def rows_at(table: Table, snapshot_id: int | None = None) -> Rows:
    """Every row of a snapshot, by PyIceberg, in one order."""
    found = table.scan(snapshot_id=snapshot_id).to_arrow()
    return tuple(sorted((tuple(row.values()) for row in found.to_pylist()), key=repr))


def rows_of_all(table: Table) -> dict[int, Rows]:
    """What every snapshot shows."""
    return {number: rows_at(table, number) for number in snapshot_ids(table)}


def needed_by(table: Table) -> set[Path]:
    """Every file that the table's current metadata names, by PyIceberg's reading of its manifests."""
    return {local_path(address) for address in _addresses(table)}


def _addresses(table: Table) -> Iterator[str]:
    document = document_of(table)
    yield table.metadata_location
    yield from (entry["metadata-file"] for entry in document.get("metadata-log") or [])
    for kind in ("statistics", "partition-statistics"):
        yield from (entry["statistics-path"] for entry in document.get(kind) or [])
    for snapshot in table.snapshots():
        yield snapshot.manifest_list
        for manifest in snapshot.manifests(table.io):
            yield manifest.manifest_path
            for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True):
                yield entry.data_file.file_path


def files_below(*roots: Path) -> set[Path]:
    """Every file on disk, but for the deployment's own and the checksums that Hadoop writes beside."""
    found = (path for root in roots for path in root.rglob("*"))
    return {path for path in found if path.is_file() and not any(part.startswith(".") for part in path.parts)}
