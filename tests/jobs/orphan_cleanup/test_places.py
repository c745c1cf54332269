"""Which files are whose: neighbours, nested and shared directories, odd names, mixed spellings. One lake, one plan."""

from __future__ import annotations

import unicodedata
from pathlib import Path

import pytest
from pyiceberg.table import Table

from tests.jobs.orphan_cleanup.site import Site, data_files, files_of, plant, register, write_file
from tests.support.deployments import Seen
from tests.support.lakes import append, local_path

ODD = (
    "a b",
    "a%20b",
    "a+b",
    "x#1",
    "x#12",
    "ü",
    unicodedata.normalize("NFD", "é"),
    "日本",
    "100%",
    "a%2Fb",
    "*[1]?",
    "=",
    "a:b",
)


class Places(Site):
    """The lake, and what was planted where."""

    planted: dict[str, set[Path]]


@pytest.fixture(scope="module")
def lake(spark: object, tmp_path_factory: pytest.TempPathFactory) -> Places:
    site = Places(tmp_path_factory.mktemp("places"))
    warehouse = f"file://{site.base}/warehouse"
    tables = {name: site.add(f"pl.{name}") for name in ("t", "t_v2", "t2", "names", "live_names", "hidden")}
    tables["outer"] = site.add("pl.outer", location=f"{warehouse}/nest")
    tables["inner"] = site.add("pl.inner", location=f"{warehouse}/nest/data/inner")
    tables["one"] = site.add("pl.one", location=f"{warehouse}/shared")
    tables["two"] = site.add("pl.two", location=f"{warehouse}/shared/")
    tables["colon"] = site.add("pl.colon", location=f"file:{site.base}/warehouse/colon")
    tables["moved"] = site.add("pl.moved", properties={"write.data.path": f"{warehouse}/elsewhere/d"})
    tables["mixed"] = site.add("pl.mixed")
    with tables["mixed"].transaction() as change:
        change.set_properties({"write.data.path": f"{site.base}/warehouse/pl/mixed/data"})
    append(tables["mixed"], 20)
    tables["empty"] = site.add("pl.empty", appends=0)
    _add_odd_files(tables["live_names"])

    site.planted = {name: set(plant(table, "data/{}.parquet", "metadata/{}-m0.avro")) for name, table in tables.items()}
    site.planted["names"] |= set(plant(tables["names"], *(f"data/{odd}.parquet" for odd in ODD)))
    site.planted["names"] |= set(plant(tables["names"], *(f"data/part={odd}/x.parquet" for odd in ODD)))
    site.planted["moved"] |= set(plant(site.base / "warehouse/elsewhere/d", "part=a/{}.parquet"))
    site.planted["outer"] |= set(plant(tables["outer"], "data/innermost.parquet"))
    site.planted["hidden"] |= set(plant(tables["hidden"], "data/_day=3/{}.parquet"))
    plant(tables["hidden"], *HIDDEN)
    site.old()
    return site


HIDDEN = (
    "_temporary/0/x.parquet", "data/.x.parquet.crc", "metadata/version-hint.text", "_SUCCESS",
    "data/notes.txt", "data/part=none", ".staging/x.parquet",
)  # fmt: skip


def _add_odd_files(table: Table) -> None:
    """Live data files under names that a careless reader decodes or cuts."""
    folder = local_path(table.location()) / "data"
    register(table, *(write_file(folder / f"live {odd}.parquet") for odd in ODD))


@pytest.fixture(scope="module")
def seen(lake: Places) -> Seen:
    return lake.plan()


def test_every_table_is_planned_and_every_planted_file_is_an_orphan_of_its_own_table(lake: Places, seen: Seen) -> None:
    refused = {table.identifier: table.refusal for table in seen.plan.tables if table.refusal}
    assert refused == {}
    for name, planted in lake.planted.items():
        if name not in ("one", "two"):
            assert seen.orphans(f"pl.{name}") == planted, name
    assert seen.orphans() == set().union(*lake.planted.values())


def test_tables_that_share_a_directory_keep_each_others_files(lake: Places, seen: Seen) -> None:
    assert seen.orphans("pl.one") | seen.orphans("pl.two") == lake.planted["one"] | lake.planted["two"]


def test_a_nested_table_owns_what_lies_in_its_directory(lake: Places, seen: Seen) -> None:
    assert seen.orphans("pl.inner") == lake.planted["inner"]
    assert any(path.name == "innermost.parquet" for path in seen.orphans("pl.outer"))


def test_odd_names_are_planned_under_the_very_name_that_is_on_disk(lake: Places, seen: Seen) -> None:
    assert len(lake.planted["names"]) == 2 + 2 * len(ODD)
    assert all(path.is_file() for path in seen.orphans("pl.names"))


def test_live_files_with_odd_names_are_live(lake: Places, seen: Seen) -> None:
    live = [path for path in data_files(lake.catalog.load_table("pl.live_names")) if path.name.startswith("live ")]
    assert len(live) == len(ODD)
    assert all(path.is_file() for path in live)
    assert not seen.orphans() & set(live)


def test_one_file_spelled_in_several_ways_is_one_file(lake: Places, seen: Seen) -> None:
    """Manifests of `mixed` name files as `file:///…` and as `/…`, those of `colon` as `file:/…`."""
    spelled = lake.catalog.load_table("pl.mixed").inspect.files()["file_path"].to_pylist()
    assert {path.split("/")[0] for path in spelled} == {"", "file:"}
    assert lake.catalog.load_table("pl.colon").metadata_location.startswith("file:/")
    for name in ("mixed", "colon"):
        table = lake.catalog.load_table(f"pl.{name}")
        live = seen.table(f"pl.{name}").verdicts["live"].files
        assert live == len(files_of(table)) - len(lake.planted[name])


def test_hidden_reused_and_unknown_names_are_protected(lake: Places, seen: Seen) -> None:
    root = local_path(lake.catalog.load_table("pl.hidden").location())
    assert seen.judged("protected", "pl.hidden") == {root / name for name in HIDDEN}


def test_every_file_has_one_verdict(lake: Places, seen: Seen) -> None:
    total = seen.plan.totals()["verdicts"]
    on_disk = [path for path in (lake.base / "warehouse").rglob("*") if path.is_file()]
    assert sum(tally["files"] for tally in total.values()) == len(on_disk)
    assert sum(tally["bytes"] for tally in total.values()) == sum(path.stat().st_size for path in on_disk)


def test_a_table_without_a_snapshot_has_orphans_too(lake: Places, seen: Seen) -> None:
    table = seen.table("pl.empty")
    assert table.verdicts["live"].files == 1
    assert table.changes == {"files": 2}


def test_selecting_one_sibling_leaves_the_other_alone(lake: Places) -> None:
    """`t` is a beginning of `t_v2` and of `t2`."""
    seen = lake.plan("lake.pl.t")
    assert [table.identifier for table in seen.plan.tables] == ["lake.pl.t"]
    assert seen.orphans() == lake.planted["t"]
