"""Readings of the first documents that lose data, each with a table on which the wrong reading shows. One lake, one plan.

The traps about commits, journals and branches belong to other jobs and have their tests there.
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from tests.jobs.orphan_cleanup.site import Site, data_files, manifests, plant
from tests.jobs.orphan_cleanup.test_recent_states import backdate
from tests.support.deployments import Seen
from tests.support.lakes import append, local_path

CLASSES = (
    "data/{}.parquet", "data/{}.orc", "data/{}.avro", "data/part=a/{}-deletes.parquet", "data/{}.puffin", "metadata/{}.stats",
    "metadata/{}-m0.avro", "metadata/snap-5-{}.avro", "{}.parquet", "metadata/partition-stats-{}.parquet",
)  # fmt: skip


class Traps(Site):
    first: set[Path]
    planted: dict[str, set[Path]]


@pytest.fixture(scope="module")
def lake(spark: object, tmp_path_factory: pytest.TempPathFactory) -> Traps:
    site = Traps(tmp_path_factory.mktemp("traps"))
    site.sections["orphan_cleanup"] |= {"max_snapshot_age_hours": 1, "revalidate_before_delete": False}
    warehouse = f"file://{site.base}/warehouse"
    aged = site.add("t.aged")
    site.first = {*data_files(aged), *manifests(aged)}
    aged.delete("id >= 0")
    backdate(aged, timedelta(days=400))
    append(site.catalog.load_table("t.aged"), 90)

    hurt = site.add("t.hurt", appends=3)
    oldest = manifests(hurt)[0]
    hurt.delete("id >= 0")
    oldest.write_bytes(oldest.read_bytes()[:-40])

    tables = {
        "aged": aged,
        "hurt": hurt,
        "traces": site.add("t.traces", location=f"{warehouse}/tenant/traces"),
        "traces_v2": site.add("t.traces_v2", location=f"{warehouse}/tenant/traces_v2"),
        "classes": site.add("t.classes"),
        "away": site.add(
            "t.away",
            properties={"write.data.path": f"{warehouse}/pool/a", "write.metadata.path": f"{warehouse}/pool/m"},
        ),
    }
    site.planted = {name: set(plant(table, "data/{}.parquet")) for name, table in tables.items()}
    site.planted["classes"] |= set(plant(tables["classes"], *CLASSES))
    site.planted["away"] |= set(plant(site.base / "warehouse/pool", "a/{}.parquet", "m/{}-m0.avro"))
    site.old()
    return site


@pytest.fixture(scope="module")
def seen(lake: Traps) -> Seen:
    return lake.plan(*(f"lake.t.{name}" for name in ("aged", "hurt", "traces", "classes", "away")))


def test_1_every_snapshot_protects_however_old_it_is(lake: Traps, seen: Seen) -> None:
    """Wrong: leave out snapshots older than max_snapshot_age_hours. Only a year-old snapshot holds the first files."""
    table = lake.catalog.load_table("t.aged")
    assert lake.first
    assert not lake.first & set(data_files(table))
    assert seen.orphans("t.aged") == lake.planted["aged"]


def test_2_an_unreadable_manifest_of_an_old_snapshot_refuses_the_table(lake: Traps, seen: Seen) -> None:
    """Wrong: skip the snapshot and go on; its files would be orphans."""
    assert seen.refusal("t.hurt") == "LW-TABLE-002"
    assert not seen.orphans("t.hurt")


def test_4_a_table_does_not_own_what_begins_with_its_name(lake: Traps, seen: Seen) -> None:
    """Wrong: startswith(location). `traces_v2` was not selected, and its live files are none of `traces`."""
    assert seen.orphans("t.traces") == lake.planted["traces"]
    assert not [row for row in seen.rows if "traces_v2" in row["uri"]]


def test_5_every_file_class_in_every_directory_is_judged(lake: Traps, seen: Seen) -> None:
    """Wrong: only .parquet below data/. Manifests, lists, metadata and its log are live; the planted ones are orphans."""
    assert seen.orphans("t.classes") == lake.planted["classes"]
    assert seen.orphans("t.away") == lake.planted["away"]
    kinds = seen.table("t.classes").kinds
    assert {kind: tally.files for kind, tally in kinds.items()} == {
        "data": 5, "delete": 2, "manifest": 1, "manifest_list": 1, "statistics": 2,
    }  # fmt: skip


def test_7_metadata_files_that_the_log_names_are_live(lake: Traps, seen: Seen) -> None:
    """Wrong: only the current metadata.json is needed."""
    table = lake.catalog.load_table("t.classes")
    logged = {local_path(entry.metadata_file) for entry in table.metadata.metadata_log}
    assert len(logged) == 2
    assert not logged & seen.orphans()
