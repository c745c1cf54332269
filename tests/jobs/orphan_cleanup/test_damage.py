"""Damaged metadata refuses its table, never another one, and never loses a file silently. One lake, one plan."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyiceberg.table import Table

from lakewarden.cli.main import main
from lakewarden.pipeline.read.avro.container import open_container
from tests.jobs.orphan_cleanup.site import Site, data_files, manifest_list, manifests, metadata, plant
from tests.support.deployments import Seen
from tests.support.lakes import append


def cut(path: Path, end: int | None = None) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2 if end is None else end])


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 0x10
    path.write_bytes(bytes(data))


def block_boundaries(path: Path) -> list[int]:
    """Where a cut leaves a healthy Avro file with fewer rows."""
    data = path.read_bytes()
    marker, ends, at = data[-16:], [], 0
    while (at := data.find(marker, at)) >= 0:
        at += 16
        ends.append(at)
    return ends[:-1]


def rewritten_uncompressed(table: Table) -> Path:
    """One manifest of the table with its blocks stored plainly, its length entered in the list."""
    import fastavro

    path = manifests(table)[0]
    before = path.stat().st_size
    with path.open("rb") as file:
        reader = fastavro.reader(file)
        schema, records, meta = reader.writer_schema, list(reader), reader.metadata
    kept = {key: value for key, value in meta.items() if not key.startswith("avro.")}
    with path.open("wb") as file:
        fastavro.writer(file, schema, records, codec="null", metadata=kept)
    listing = manifest_list(table)
    for one in listing.parent.glob("snap-*.avro"):
        with one.open("rb") as file:
            reader = fastavro.reader(file)
            schema, records, meta = reader.writer_schema, list(reader), reader.metadata
        for record in records:
            if record["manifest_path"].endswith(path.name):
                assert record["manifest_length"] == before
                record["manifest_length"] = path.stat().st_size
        kept = {key: value for key, value in meta.items() if not key.startswith("avro.")}
        with one.open("wb") as file:
            fastavro.writer(file, schema, records, codec="null", metadata=kept)
    return path


DAMAGED = (
    "half", "boundary", "zero", "flipped", "gone", "list_half", "list_boundary", "list_first", "list_zero", "list_gone", "json_half",
    "json_gone", "json_zero",
)  # fmt: skip


@pytest.fixture(scope="module")
def lake(spark: object, tmp_path_factory: pytest.TempPathFactory) -> Site:
    site = Site(tmp_path_factory.mktemp("damage"))
    site.sections["orphan_cleanup"]["max_orphan_share"] = 0.9
    tables = {name: site.add(f"d.{name}") for name in (*DAMAGED, "healthy", "renamed", "lost_data", "plain")}
    for name in ("neighbour", "hurt"):
        tables[name] = site.add(f"d.{name}", location=f"file://{site.base}/warehouse/together/{name[0]}")
    tables["above"] = site.add("d.above", location=f"file://{site.base}/warehouse/together")
    for table in tables.values():
        plant(table, "data/{}.parquet")

    cut(manifests(tables["half"])[0])
    append(tables["boundary"], 30)
    first = manifests(tables["boundary"])[0]
    cut(first, block_boundaries(first)[-1])
    open_container(first.read_bytes())
    cut(manifests(tables["zero"])[0], 0)
    flip(manifests(tables["flipped"])[0], -60)
    manifests(tables["gone"])[0].unlink()
    cut(manifest_list(tables["list_half"]))
    for name, end in (("list_boundary", -1), ("list_first", 0)):
        path = manifest_list(tables[name])
        cut(path, block_boundaries(path)[end])
        open_container(path.read_bytes())
    cut(manifest_list(tables["list_zero"]), 0)
    manifest_list(tables["list_gone"]).unlink()
    cut(metadata(tables["json_half"]))
    metadata(tables["json_gone"]).unlink()
    cut(metadata(tables["json_zero"]), 0)
    cut(manifests(tables["hurt"])[0])
    rewritten_uncompressed(tables["plain"])
    path = rewritten_uncompressed(tables["renamed"])
    flip(path, path.read_bytes().rindex(b".parquet") - 3)
    data_files(tables["lost_data"])[0].unlink()
    site.old()
    return site


@pytest.fixture(scope="module")
def seen(lake: Site) -> Seen:
    return lake.plan()


@pytest.mark.parametrize("name", DAMAGED)
def test_a_table_with_damaged_metadata_is_refused(seen: Seen, name: str) -> None:
    expected = {"LW-TABLE-001", "LW-TABLE-002"}
    assert seen.refusal(f"d.{name}") in expected
    assert not seen.orphans(f"d.{name}")
    assert seen.table(f"d.{name}").changes == {}


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("half", "bytes where its list says"),
        ("boundary", "bytes where its list says"),
        ("zero", "0 bytes where its list says"),
        ("list_boundary", "where its snapshot's summary says"),
        ("list_first", "names 0 files where its snapshot's summary says"),
    ],
)
def test_the_message_says_what_does_not_add_up(seen: Seen, name: str, says: str) -> None:
    assert says in seen.message(f"d.{name}")


def test_the_other_tables_are_planned(seen: Seen) -> None:
    for name in ("healthy", "plain"):
        assert seen.refusal(f"d.{name}") is None
        assert len(seen.orphans(f"d.{name}")) == 1


def test_tables_in_the_same_root_as_a_damaged_one_are_refused_with_it(seen: Seen) -> None:
    assert seen.refusal("d.hurt") == "LW-TABLE-002"
    for name in ("neighbour", "above"):
        assert seen.refusal(f"d.{name}") == "LW-ROOT-001"
        assert "d.hurt" in seen.message(f"d.{name}")


def test_a_name_that_a_flip_turned_into_another_one_is_missed_in_the_listing(seen: Seen) -> None:
    """The manifest is whole to every count; the file it should name would be an orphan, but for the brake."""
    assert seen.refusal("d.renamed") == "LW-BRAKE-002"


def test_a_file_by_no_address_that_is_known_may_be_any_file(site: Site) -> None:
    """Nobody ever read the table, and every file of the others may be the one that it means."""
    outside, healthy = site.add("o.outside"), site.add("o.healthy")
    plant(healthy, "data/{}.parquet")
    path = rewritten_uncompressed(outside)
    flip(path, path.read_bytes().rindex(b"file:///"))
    site.old()
    seen = site.plan()
    assert seen.refusal("o.outside") == "LW-TABLE-013"
    assert "no address that is known" in seen.message("o.outside")
    assert seen.refusal("o.healthy") == "LW-BRAKE-007"
    assert "lake.o.outside may need any of these" in seen.message("o.healthy")


def test_a_live_file_that_is_not_there_pulls_the_brake(seen: Seen) -> None:
    assert seen.refusal("d.lost_data") == "LW-BRAKE-002"
    assert seen.plan.brakes["live-missing"] == ("lake.d.lost_data", "lake.d.renamed")
    assert "1 needed files are not in the listing" in seen.message("d.lost_data")


def test_a_plan_with_refused_tables_exits_with_0_and_strictly_with_4(
    lake: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["plan", "orphans", "--config", lake.config(), "--output", "json", "--select"]
    assert main([*arguments, "lake.d.h*"]) == 0
    found = {table["identifier"]: table["status"] for table in json.loads(capsys.readouterr().out)["tables"]}
    assert found == {"lake.d.half": "refused", "lake.d.healthy": "planned", "lake.d.hurt": "refused"}
    assert main([*arguments, "lake.d.half"]) == 4
    assert main([*arguments, "lake.d.h*", "--strict"]) == 4
    capsys.readouterr()
