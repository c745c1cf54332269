"""A lake with something for every job of a night, of both formats, and what a test asks of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyiceberg.table import Table

from tests.formats.paimon.tables import Lake as Stream
from tests.formats.paimon.tables import LakeTable
from tests.jobs.snapshot_expiry.expiry_site import Site, rows_at
from tests.jobs.tier_handoff.aged import ids_of, made
from tests.support.lakes import plant_orphans

GOOD, OTHER, REFUSED, FAR = "sales.orders", "sales.items", "sales.closed", "sales.far"
ENABLED = {"enabled": True, "dry_run": False}


class NightLake(Site):
    """Iceberg tables in the catalog `lake`, a Paimon table in `stream`; every job is enabled and may change things.

    Of the table `sales.closed` the owner forbids it; the cold place of `sales.far` is no directory, so it is refused there.
    """

    stream: LakeTable
    planted: list[Path]
    rows: dict[str, Any]

    def build(self) -> None:
        catalog = self.catalog()
        catalog.create_namespace("sales")
        for name in (GOOD, OTHER, FAR):
            made(catalog, name, appends=3)
        made(catalog, REFUSED, appends=3, properties={"gc.enabled": "false"})
        self.stream = Stream(self.base / "stream").create("t")
        self.stream.write("one", "two", "three")
        self.planted = [path for _ in range(4) for path in plant_orphans(self.table(GOOD).location())]
        self.rows = self.rows_now()

    def table(self, name: str) -> Table:
        return self.catalog().load_table(name)

    def snapshots(self, name: str) -> int:
        return len(ids_of(self.table(name)))

    def rows_now(self) -> dict[str, Any]:
        return {name: rows_at(self.table(name)) for name in (GOOD, OTHER, FAR, REFUSED)}

    def wall(self, name: str) -> Path:
        """A file where the copies of a table need a directory: its handover begins and fails."""
        table = self.table(name)
        wall = self.base / "cold" / "lake" / f"{name.replace('.', '/')}-{str(table.metadata.table_uuid)[:8]}" / "data"
        wall.parent.mkdir(parents=True)
        wall.write_text("no directory")
        return wall

    def files(self) -> set[Path]:
        found = (path for place in ("warehouse", "stream") for path in (self.base / place).rglob("*"))
        return {path for path in found if path.is_file() and ".lakewarden" not in path.parts}


def night_lake(base: Path) -> NightLake:
    """Not built yet."""
    (base / "wall").write_text("a file where a directory would have to be")
    site = NightLake.on_sqlite(base, formats={"stream": "paimon"})
    assert isinstance(site, NightLake)
    site.catalogs["stream"] = {"warehouse": f"file://{base}/stream"}
    site.sections["orphan_cleanup"] |= {**ENABLED, "batch_size": 1}
    site.sections["snapshot_expiry"] = {**ENABLED, "retain_hours": 0, "retain_min": 1}
    site.sections["partition_expiry"] = dict(ENABLED)
    site.sections["tier_handoff"] = {**ENABLED, "destination": f"file://{base}/cold"}
    site.sections["physical_deletion"] |= {**ENABLED, "batch_size": 2}
    site.policies = {f"lake.{FAR}": {"tier_handoff": {"destination": f"file://{base}/wall/cold"}}}
    return site
