"""Tables whose snapshots have expired, and the cold tables made of them: what the tests of the handover ask."""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pyiceberg.catalog import Catalog
from pyiceberg.table import StaticTable, Table

from lakewarden.ledger.archives import Archive
from lakewarden.model.run import RunResult
from tests.jobs.snapshot_expiry.expiry_site import Rows, Site, rows_at
from tests.support.deployments import Seen
from tests.support.lakes import write_table

HANDOFF = "tier-handoff"


def cold_site(base: Path, **policy: Any) -> Site:
    """A deployment on this disk that hands snapshots over to `base/cold`."""
    site = Site.on_sqlite(base)
    site.sections["tier_handoff"] = {"dry_run": False, "destination": f"file://{base}/cold", **policy}
    site.catalog().create_namespace("sales")
    return site


def made(catalog: Catalog, name: str = "sales.orders", appends: int = 4, **how: Any) -> Table:
    """A table by PyIceberg with that many snapshots of four rows each."""
    table: Table = write_table(catalog, name, appends=appends, **how)  # type: ignore[arg-type]
    return table


def ids_of(table: Table) -> list[int]:
    """Its snapshots, oldest first."""
    return [snapshot.snapshot_id for snapshot in sorted(table.snapshots(), key=lambda s: s.timestamp_ms)]


def age_out(site: Site, table: Table, ids: Sequence[int], *, run: str = "run-1") -> None:
    """Let snapshots expire as `snapshot-expiry` does: metadata into the archive, then the commit; no file goes."""
    deployment = site.warden._deployment
    name = f"{table.catalog.name}.{'.'.join(table.name())}"
    uuid = str(table.metadata.table_uuid)
    packed = gzip.compress(deployment.stores.get(table.metadata_location))
    uri = f"{deployment.state}archive/{uuid}/{run}.metadata.json.gz"
    deployment.stores.put(uri, packed)
    digest = hashlib.sha256(packed).hexdigest()
    deployment.ledger.archives.add(Archive(run, name, uuid, uri, digest, tuple(ids), deployment.clock.now()))
    for number in ids:
        table.maintenance.expire_snapshots().by_id(number).commit()


def hand_over(site: Site, *select: str) -> tuple[Seen, RunResult]:
    seen = site.plan(HANDOFF, *select)
    return seen, site.apply(seen)


def forget_manifests(site: Site) -> None:
    """The next plan reads every manifest again."""
    cache = site.warden._deployment.ledger.cache
    cache.forget([file.uri for file in cache.files()])


def cold_table(seen: Seen, identifier: str = "lake.sales.orders", **properties: str) -> StaticTable:
    """The cold copy, opened by its directory alone."""
    return StaticTable.from_metadata(str(detail_of(seen, identifier)["cold"]).rstrip("/"), properties)


def detail_of(seen: Seen, identifier: str = "lake.sales.orders") -> dict[str, Any]:
    return dict(next(table for table in seen.plan.tables if table.identifier == identifier).detail)


def shown(table: Table, ids: Sequence[int]) -> dict[int, Rows]:
    """The rows of these snapshots."""
    return {number: rows_at(table, number) for number in ids}


def inodes(directory: Path) -> dict[str, tuple[int, int]]:
    """Every file below a directory by its path there, with what tells a file that was written again."""
    found = (path for path in directory.rglob("*") if path.is_file())
    return {str(path.relative_to(directory)): (path.stat().st_ino, path.stat().st_mtime_ns) for path in found}


def documents(directory: Path) -> list[dict[str, Any]]:
    """A cold table's metadata documents, oldest first."""
    paths = sorted((directory / "metadata").glob("v*.metadata.json"), key=lambda path: int(path.name[1:].split(".")[0]))
    return [json.loads(path.read_bytes()) for path in paths]
