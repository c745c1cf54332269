"""Reads the lake without Lakewarden: every row of every ref, and every file that the tables still name."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """The rows of one ref of one table, as a count and a hash over their sorted values."""

    table: str
    ref: str
    rows: int
    digest: str


def fingerprints(catalog: SqlCatalog, tables: tuple[str, ...]) -> list[Fingerprint]:
    """One for each branch and tag of each table."""
    found = []
    for name in tables:
        table = catalog.load_table(name)
        for ref, target in sorted(table.refs().items()):
            rows = table.scan(snapshot_id=target.snapshot_id).to_arrow().to_pylist()
            found.append(fingerprint(name, ref, rows))
    return found


def fingerprint(table: str, ref: str, rows: list[dict[str, Any]]) -> Fingerprint:
    lines = sorted(repr(sorted(row.items())) for row in rows)
    return Fingerprint(table, ref, len(rows), hashlib.sha256("\n".join(lines).encode()).hexdigest())


def live_files(catalog: SqlCatalog, tables: tuple[str, ...]) -> set[Path]:
    """Every file that a snapshot of these tables names, and the metadata that names the snapshots."""
    return {Path(name.removeprefix("file://")) for table in tables for name in _named_by(catalog.load_table(table))}


def _named_by(table: Table) -> set[str]:
    names = {table.metadata_location, *(entry.metadata_file for entry in table.metadata.metadata_log)}
    for snapshot in table.snapshots():
        names.add(snapshot.manifest_list)
        for manifest in snapshot.manifests(table.io):
            names.add(manifest.manifest_path)
            names |= {entry.data_file.file_path for entry in manifest.fetch_manifest_entry(table.io)}
    return names


def all_files(base: Path) -> set[Path]:
    """What lies on disk below `base`."""
    return {path for path in base.rglob("*") if path.is_file()}
