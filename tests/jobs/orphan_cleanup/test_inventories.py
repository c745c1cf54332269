"""A listing from a file instead of LIST calls. One lake, one plan."""

from __future__ import annotations

import csv
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.table import Table

from tests.jobs.orphan_cleanup.site import Site, data_files, files_of, plant
from tests.support.deployments import Seen
from tests.support.lakes import local_path

OLD = datetime.now(UTC) - timedelta(days=30)


def rows(*tables: Table) -> list[tuple[str, int, datetime]]:
    return [(f"file://{path}", path.stat().st_size, OLD) for table in tables for path in sorted(files_of(table))]


def write_parquet(path: Path, found: list[tuple[str, int, datetime]]) -> None:
    names, sizes, times = zip(*found, strict=True)
    pq.write_table(pa.table({"key": names, "size": sizes, "last_modified": pa.array(times, pa.timestamp("ms"))}), path)


def write_csv(path: Path, found: list[tuple[str, int, datetime]]) -> None:
    with path.open("w", newline="") as file:
        out = csv.writer(file)
        out.writerow(["path", "size", "modified"])
        out.writerows((name, size, at.strftime("%Y-%m-%d %H:%M:%S")) for name, size, at in found)


@pytest.fixture(scope="module")
def lake(spark: object, tmp_path_factory: pytest.TempPathFactory) -> Site:
    site = Site(tmp_path_factory.mktemp("inventory"))
    names = ("parquet", "csv", "folder", "garbled", "absent", "columns", "stale", "listed", "other_v2", "other")
    tables = {name: site.add(f"i.{name}") for name in names}
    for name in names:
        plant(tables[name], f"data/orphan-{name}.parquet")
    plant(tables["other_v2"], "data/not-asked-for.parquet")
    place = site.base / "inventories"
    (place / "folder").mkdir(parents=True)
    write_parquet(place / "parquet.parquet", rows(tables["parquet"]))
    write_csv(place / "csv.csv", rows(tables["csv"]))
    both = rows(tables["folder"])
    write_parquet(place / "folder/a.parquet", both[:5])
    write_csv(place / "folder/b.csv", both[5:])
    (place / "garbled.parquet").write_bytes(b"PAR1 nothing")
    pq.write_table(pa.table({"name": ["x"]}), place / "columns.parquet")
    lost = set(data_files(tables["stale"]))
    write_parquet(place / "stale.parquet", [row for row in rows(tables["stale"]) if local_path(row[0]) not in lost])
    # An inventory of everything, used for one table: what it says of the neighbours is not asked for.
    write_parquet(place / "other.parquet", rows(tables["other"], tables["other_v2"], tables["listed"]))
    uses = {"parquet": "parquet.parquet", "csv": "csv.csv", "folder": "folder", "garbled": "garbled.parquet",
            "absent": "absent.parquet", "columns": "columns.parquet", "stale": "stale.parquet", "other": "other.parquet"}  # fmt: skip
    site.sections["orphan_cleanup"]["inventory"] = {
        tables[name].location(): f"file://{place}/{file}" for name, file in uses.items()
    }
    for name in ("parquet", "csv", "folder", "other"):
        plant(tables[name], "data/after-the-inventory.parquet")
    site.old()
    plant(tables["parquet"], "data/orphan-parquet.parquet", age=timedelta())
    return site


@pytest.fixture(scope="module")
def seen(lake: Site) -> Seen:
    return lake.plan()


@pytest.mark.parametrize("name", ["parquet", "csv", "folder", "other"])
def test_an_inventory_stands_for_the_listing(seen: Seen, name: str) -> None:
    """Its ages and sizes count, and what it does not name does not exist."""
    table = seen.table(f"i.{name}")
    assert table.refusal is None
    assert {path.name for path in seen.orphans(f"i.{name}")} == {f"orphan-{name}.parquet"}
    assert table.verdicts["live"].files == 11


def test_names_outside_the_root_are_ignored(seen: Seen) -> None:
    assert {path.name for path in seen.orphans("i.other_v2")} == {"orphan-other_v2.parquet", "not-asked-for.parquet"}
    assert len([row for row in seen.rows if row["uri"].endswith("orphan-listed.parquet")]) == 1


@pytest.mark.parametrize("name", ["garbled", "absent", "columns"])
def test_an_inventory_that_cannot_be_read_refuses_its_roots(seen: Seen, name: str) -> None:
    assert seen.refusal(f"i.{name}") == "LW-STORE-003"
    assert "inventory" in seen.message(f"i.{name}")


def test_an_inventory_that_misses_most_live_files_pulls_the_brake(seen: Seen) -> None:
    assert seen.refusal("i.stale") in ("LW-BRAKE-002", None)
    missing = 4 / 11
    assert (seen.refusal("i.stale") is None) == (missing <= 0.5)


def test_a_root_without_an_inventory_is_listed(seen: Seen) -> None:
    assert {path.name for path in seen.orphans("i.listed")} == {"orphan-listed.parquet"}
