"""Iceberg catalogs and the deployment that looks after them: configuration, clock, plans as plain values, files on disk."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, Self

from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.table import Table

from lakewarden.model.actor import Actor, Trigger
from lakewarden.model.run import RunResult
from lakewarden.warden import Warden
from lakewarden.wiring import open_warden
from tests.lakes import local_path
from tests.plan.site import Seen, TurnedClock

EXPIRY, DELETION, ORPHANS = "snapshot-expiry", "physical-deletion", "orphans"
HOUR_MS = 3_600_000

SECTIONS: Mapping[str, Mapping[str, Any]] = {
    "orphan_cleanup": {"grace_period_hours": 24, "max_orphan_share": 1.0, "rate_limit_ms": 0},
    "snapshot_expiry": {"retain_hours": 1},
    "physical_deletion": {"visibility_delay_hours": 1, "rate_limit_ms": 0},
}
Rows = tuple[tuple[Any, ...], ...]


@dataclass
class Site:
    """Catalogs by name with PyIceberg's properties for each, and what the configuration says of their tables."""

    base: Path
    catalogs: dict[str, Mapping[str, str]] = field(default_factory=dict)
    sections: dict[str, dict[str, Any]] = field(default_factory=lambda: {n: dict(v) for n, v in SECTIONS.items()})
    policies: dict[str, dict[str, Mapping[str, Any]]] = field(default_factory=dict)
    """Overrides by pattern of tables: sections with their values."""
    database: str = "sqlite"
    clock: TurnedClock = field(default_factory=TurnedClock)
    _warden: Warden | None = None

    @classmethod
    def on_sqlite(cls, base: Path, **more: Any) -> Site:
        """One catalog, `lake`, on this disk."""
        base.mkdir(parents=True, exist_ok=True)
        return cls(base, {"lake": sqlite_properties(base)}, **more)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Forget the deployment's process, as if it had ended; its state stays."""
        if self._warden is not None:
            self._warden.close()
            self._warden = None

    def catalog(self, name: str = "lake") -> Catalog:
        return load_catalog(name, **self.catalogs[name])

    @property
    def warden(self) -> Warden:
        if self._warden is None:
            self._warden = open_warden(self.config(), clock=self.clock)
        return self._warden

    def config(self) -> str:
        """The configuration file, written anew."""
        lines = ["[worker]", 'id = "tester"']
        lines += ["[state]", f'location = "file://{self.base}/state"', f'database = "{self.database}"']
        lines += ["[spark]", 'master = "local[2]"']
        for name, properties in self.catalogs.items():
            lines += [f"[catalogs.{name}]", 'format = "iceberg"', f"properties = {_inline(properties)}"]
        for section, values in self.sections.items():
            lines += [f"[{section}]", *(f"{key} = {json.dumps(value)}" for key, value in values.items())]
        for pattern, sections in self.policies.items():
            lines += ["[[overrides]]", f'match = "{pattern}"']
            lines += [f"{section} = {_inline(values)}" for section, values in sections.items()]
        path = self.base / "lakewarden.toml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(lines) + "\n")
        return str(path)

    def plan(self, job: str, *select: str, trigger: Trigger = Trigger.MANUAL, **how: Any) -> Seen:
        """Plan a job and read the plan's rows back."""
        result = self.warden.plan(job, select=select, actor=Actor("tester", "tester", trigger), **how)
        return Seen(result.plan, result.path, list(self.warden.plan_rows(result.path)))

    def apply(self, seen: Seen, **how: Any) -> RunResult:
        return self.warden.apply(seen.path, **how)

    def run(self, job: str, *select: str) -> RunResult:
        """Plan and apply, as a person would who has read the plan."""
        return self.apply(self.plan(job, *select))

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

    def later(self, hours: float) -> None:
        """Let time pass for the deployment."""
        self.clock.passed += timedelta(hours=hours)

    def pending(self) -> set[Path]:
        """The files that expiry released and nobody has deleted yet."""
        return {local_path(uri) for page in self.warden._rooms.ledger.pending.iter_uris() for uri in page}


def sqlite_properties(base: Path) -> dict[str, str]:
    return {"type": "sql", "uri": f"sqlite:///{base}/catalog.db", "warehouse": f"file://{base}/warehouse"}


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


def _inline(values: Mapping[str, Any]) -> str:
    return "{ " + ", ".join(f'"{key}" = {json.dumps(value)}' for key, value in values.items()) + " }"
