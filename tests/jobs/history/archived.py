"""A deployment with an Iceberg and a Paimon catalog whose snapshots are archived, and what a test asks of the archive."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.table import Table

from lakewarden.ledger.history import HistoryFile
from lakewarden.pipeline.history.rows import read_file
from tests.formats.paimon.tables import Lake, LakeTable
from tests.support.configuration import Sections
from tests.support.deployments import Deployed, Properties, sqlite_properties

HISTORY, EXPIRY = "history", "snapshot-expiry"
ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64())})


@dataclass(kw_only=True)
class Site(Deployed):
    """The catalogs `lake` (Iceberg) and `stream` (Paimon)."""

    formats: dict[str, str] = field(default_factory=lambda: {"stream": "paimon"})
    sections: Sections = field(
        default_factory=lambda: {
            "history": {"enabled": True, "dry_run": False},
            "snapshot_expiry": {"retain_min": 1, "retain_hours": 0},
        }
    )

    @classmethod
    def at(cls, base: Path, **more: Any) -> Site:
        (base / "stream").mkdir(parents=True, exist_ok=True)
        catalogs: dict[str, Properties] = {
            "lake": sqlite_properties(base),
            "stream": {"warehouse": f"file://{base}/stream"},
        }
        load_catalog("lake", **catalogs["lake"])
        return cls(base, catalogs, **more)

    def catalog(self) -> Catalog:
        return load_catalog("lake", **self.catalogs["lake"])

    def iceberg(self, name: str, commits: int = 3, **properties: str) -> Table:
        """A table of so many appends, each with these properties in its summary."""
        catalog = self.catalog()
        catalog.create_namespace_if_not_exists("db")
        table = catalog.create_table(f"db.{name}", ROWS.schema)
        for _ in range(commits):
            table.append(ROWS, snapshot_properties=properties)
        return table

    def paimon(self, name: str, commits: int = 3) -> LakeTable:
        table = Lake(self.base / "stream").create(name)
        table.write(*["2026-01-01"] * commits)
        return table

    def files(self) -> list[HistoryFile]:
        return self.warden._deployment.ledger.history.files()

    def rows(self) -> list[dict[str, Any]]:
        """Every row of every file of the archive that counts."""
        stores = self.warden._deployment.stores
        return [row for f in self.files() if f.lost is None for row in read_file(stores, f.uri, f.sha256).to_pylist()]

    def keys(self) -> Counter[tuple[str, int, str]]:
        """How often the archive's files have each snapshot."""
        return Counter((row["identifier"], row["snapshot_id"], row["digest"]) for row in self.rows())

    def path(self, file: HistoryFile) -> Path:
        return Path(file.uri.removeprefix("file://"))


def ids(table: Table) -> set[int]:
    return {snapshot.snapshot_id for snapshot in table.refresh().snapshots()}


def committed_again(table: LakeTable, number: int) -> None:
    """A rollback behind a snapshot, and another commit: its id comes again, with other content."""
    (table.path / f"snapshot/snapshot-{number}").unlink()
    (table.path / "snapshot/LATEST").write_text(str(number - 1))
    table.write("2026-01-02")
