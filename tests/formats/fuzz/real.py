"""Tables by PyIceberg and pypaimon with some of everything that their metadata can have."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from pyiceberg.table.statistics import BlobMetadata, StatisticsFile

from lakewarden.model.policy import AgeRule, ExpiryPolicy, PartitionPolicy
from lakewarden.model.table import TableState
from tests.formats.paimon.tables import Lake, LakeTable
from tests.support.lakes import append, local_path, small_lake, write_table

NOW = datetime.now(UTC)
EXPIRY = ExpiryPolicy(
    enabled=True, dry_run=True, retain_min=1, retain_max=None, retain=timedelta(0), max_expire=None,
    age_rule=AgeRule.SUCCESSOR, keep=(), max_ref_age=None, expire_ids=(), flink_checkpoint=timedelta(days=30),
)  # fmt: skip
PARTITIONS = PartitionPolicy(
    enabled=True, dry_run=True, expiration=timedelta(days=1), strategy=None, timestamp_formatter=None,
    timestamp_pattern=None, max_partitions=None, batch_size=None, time_zone="UTC", max_drop_share=0.5,
)  # fmt: skip


@dataclass(frozen=True)
class RealIceberg:
    """A table and its files: the current metadata, the one before it, and what a catalog needs to load them."""

    properties: dict[str, str]
    identifier: str
    metadata: Path
    earlier: Path
    lists: tuple[Path, ...]
    manifests: tuple[Path, ...]

    @property
    def document(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.metadata.read_bytes())
        return found


def real_iceberg(base: Path) -> RealIceberg:
    """Appends, a delete, a branch, a tag, statistics, and a snapshot that has expired since the metadata before."""
    lake = small_lake(base, ())
    catalog = lake.catalog()
    catalog.create_namespace("n")
    properties = {"write.data.path": f"file://{base}/elsewhere", "history.expire.max-ref-age-ms": "1000"}
    table = write_table(catalog, "n.t", appends=3, delete=True, properties=properties)
    ids = [s.snapshot_id for s in table.metadata.snapshots]
    with table.manage_snapshots() as manage:
        manage.create_tag(ids[1], "kept").create_branch(ids[2], "side")
    made = StatisticsFile(
        snapshot_id=ids[2], statistics_path=f"{table.location()}/metadata/a.stats", file_size_in_bytes=9,
        file_footer_size_in_bytes=3,
        blob_metadata=[BlobMetadata(type="apache-datasketches-theta-v1", snapshot_id=ids[2], sequence_number=3, fields=[1])],
    )  # fmt: skip
    with table.update_statistics() as update:
        update.set_statistics(made)
    append(table, 100)
    earlier = local_path(table.metadata_location)
    table.maintenance.expire_snapshots().by_id(ids[0]).commit()
    table.refresh()
    lists = tuple(local_path(s.manifest_list) for s in table.metadata.snapshots)
    named = [table.inspect.all_manifests()["path"].to_pylist()]
    catalog.close()
    manifests = tuple(dict.fromkeys(local_path(path) for paths in named for path in paths))
    return RealIceberg(lake.properties, "lake.n.t", local_path(table.metadata_location), earlier, lists, manifests)


def real_paimon(base: Path) -> LakeTable:
    """Three commits, a tag, a branch with a commit of its own, and a consumer; a table beside it that nobody damages."""
    lake = Lake(base)
    table = lake.create("t", {"snapshot.num-retained.min": "2"}, primary_keys=["dt", "id"])
    table.write("2024-01-01", "2024-01-02")
    table.opened.create_tag("kept")
    table.opened.branch_manager().create_branch("side", "kept")
    table.write("2024-01-03")
    table.write("2024-01-04", branch="side")
    table.put("consumer/consumer-me", '{"nextSnapshot": 2}')
    table.put("snapshot/EARLIEST", "1")
    lake.create("beside").write("2024-01-01")
    return table


def reach(state: TableState) -> Iterator[tuple[str, str]]:
    """What the table needs for certain, and where it may have files."""
    yield from (("file", file.uri) for file in state.files if not file.soft)
    yield from (("list", item.uri) for item in state.manifest_lists if not item.soft)
    yield from (("manifest", item.uri) for item in state.manifests if not item.soft)
    yield from (("root", root) for root in state.roots)


def soft_reach(state: TableState) -> set[str]:
    return {item.uri for item in state.manifest_lists if item.soft} | {file.uri for file in state.files if file.soft}
