"""Files that an entry names by their whole address, written where no option of any schema says: needed where they lie."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import fastavro
import pyarrow as pa
import pytest

from lakewarden.formats.paimon import open_format
from lakewarden.formats.paimon.manifests.reader import PaimonReader
from lakewarden.model.roots import BY_NAME, Root
from lakewarden.model.table import Hold, TableState
from lakewarden.pipeline.compare import compare as comparing
from lakewarden.pipeline.compare.by_hash import sum_up
from lakewarden.pipeline.compare.holders import Holders, everything
from lakewarden.pipeline.compare.needs import name_manifests, open_manifests
from lakewarden.pipeline.compare.one_table import needs_of
from lakewarden.pipeline.read.cache import CacheFiles, CacheWriter
from lakewarden.pipeline.read.hashing import key_hashes
from lakewarden.pipeline.read.manifests import ReadTask
from lakewarden.pipeline.read.places import Places
from lakewarden.storage.stores import Stores
from tests.formats.paimon.site import ORPHANS, Site
from tests.formats.paimon.tables import Lake, LakeTable, write_outside
from tests.support.lakes import age_everything

READ = ReadTask(Stores(), {"paimon": PaimonReader()})


def change_entries(table: LakeTable, change: Callable[[dict[str, Any]], None]) -> None:
    """Rewrite every entry of the latest manifest, in as many bytes as its list says."""
    manifest = max(table.path.glob("manifest/manifest-[0-9a-f]*"), key=lambda path: path.stat().st_mtime_ns)
    with manifest.open("rb") as file:
        reader = fastavro.reader(file)
        schema, records = reader.writer_schema, list(reader)
    for record in records:
        change(record["_FILE"])
    with manifest.open("wb") as file:
        fastavro.writer(file, schema, records)


def loaded(table: LakeTable) -> TableState:
    catalog = open_format("p", {"warehouse": str(table.lake.path)}, Stores(), lambda *_: None)
    (pointer,) = (found for found in catalog.pointers() if found.identifier == f"p.{table.name}")
    return catalog.load(pointer, datetime.now(UTC))


@pytest.fixture
def table(tmp_path: Path) -> LakeTable:
    made = Lake(tmp_path / "wh").create("t")
    made.write("2024-01-01")
    return made


def test_a_table_needs_such_a_file_by_address_and_by_name(table: LakeTable, tmp_path: Path) -> None:
    outside = write_outside(table, tmp_path / "outside")
    state = loaded(table)
    assert state.roots == (table.location,)
    home = BY_NAME + table.location
    found = needs_of(state, {state.identifier: home}, READ)
    assert found.notes == ()
    assert {f"file://{outside}", home + outside.name} <= set(found.keys.to_pylist())


@pytest.mark.parametrize("cached", [False, True])
def test_a_table_touches_the_root_in_which_such_a_file_lies(table: LakeTable, tmp_path: Path, cached: bool) -> None:
    outside = write_outside(table, tmp_path / "outside")
    state = loaded(table)
    homes = {state.identifier: BY_NAME + table.location}
    roots = [Root(0, table.location, (state.identifier,)), Root(1, f"file://{tmp_path}/outside/", ("lake.other",))]
    places, cache = Places.of(roots), CacheFiles(CacheWriter(Stores(), f"file://{tmp_path}/cache/"))
    for _ in range(2 if cached else 1):
        named = name_manifests(no_spark, Holders.of([everything(0, state)], homes), READ, cache)
        contents = open_manifests(no_spark, named, READ, cache, places)
        cache = cache.plus(contents.kept)
        summed = sum_up(named, contents, places)
        assert not contents.refusals
        assert summed.touches == {(0, 1)}
        assert summed.live.under([1]).has(pa.array([f"file://{outside}"])).all()


def test_the_rule_of_a_holder_counts_addresses_as_it_counts_names(table: LakeTable, tmp_path: Path) -> None:
    """A file that was added and deleted again is released under both."""
    outside = write_outside(table, tmp_path / "outside")
    write_outside(table, tmp_path / "outside")
    commit = table.opened.new_batch_write_builder().new_commit()
    commit.truncate_partitions([{"dt": "2024-02-01"}])
    commit.close()
    state = loaded(table)
    home = BY_NAME + table.location
    last = [holder for holder in state.holders if holder.hold == Hold.NET][-1]
    holders = Holders.of([(0, state, (last,))], {state.identifier: home}, before=[(0, state, state.holders)])
    cache = CacheFiles(CacheWriter(Stores(), f"file://{tmp_path}/cache/"))
    named = name_manifests(no_spark, holders, READ, cache)
    live = sum_up(named, open_manifests(no_spark, named, READ, cache, Places.of([])), Places.of([])).live
    keys = pa.array([f"file://{outside}", home + outside.name])
    assert not live.has(keys).any()
    assert set(key_hashes(keys)) <= set(live.released)


def test_files_beside_such_a_file_are_needed_beside_it(table: LakeTable, tmp_path: Path) -> None:
    outside = write_outside(table, tmp_path / "outside")

    def with_index(entry: dict[str, Any]) -> None:
        entry["_EXTRA_FILES"] = [f"{outside.name}.index"]

    change_entries(table, with_index)
    manifest = max(table.path.glob("manifest/manifest-[0-9a-f]*"), key=lambda path: path.stat().st_mtime_ns)
    keys = entries_of(table, manifest)
    assert {f"file://{outside}", f"file://{outside}.index"} <= keys
    assert {"name:x/" + outside.name, f"name:x/{outside.name}.index"} <= keys


def test_an_address_that_is_none_refuses_the_table(table: LakeTable, tmp_path: Path) -> None:
    write_outside(table, tmp_path / "outside")

    def garbled(entry: dict[str, Any]) -> None:
        entry["_EXTERNAL_PATH"] = "ftp//nowhere"

    change_entries(table, garbled)
    manifest = max(table.path.glob("manifest/manifest-[0-9a-f]*"), key=lambda path: path.stat().st_mtime_ns)
    with pytest.raises(AssertionError, match="no address"):
        entries_of(table, manifest)


def entries_of(table: LakeTable, manifest: Path) -> set[str]:
    """The keys of what one manifest names, whatever its list says of it."""
    from lakewarden.pipeline import columns as c
    from lakewarden.pipeline.read.manifests import read_entries

    row = dict.fromkeys(c.MANIFESTS.names) | {
        c.TABLE: 0, "format": "paimon", "soft": False, "path": f"file://{manifest}", "content": 0, c.HOME: "name:x/",
    }  # fmt: skip
    rows = pa.Table.from_pylist([row], schema=c.MANIFESTS)
    ((_, marks, notes),) = read_entries(READ)(rows.to_batches())
    assert not notes, notes
    return set(marks[c.KEY].to_pylist())


def no_spark() -> Any:
    raise AssertionError("few manifests are read without Spark")


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("most", [comparing.MOST_LIVE, -1], ids=["by hashes", "by the join"])
def test_such_a_file_in_the_directory_of_another_table(
    tmp_path: Path, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other table's sweep leaves it alone, before and after the commit that names it."""
    monkeypatch.setattr(comparing, "MOST_LIVE", most)
    with Site(tmp_path) as site:
        lake = Lake(site.warehouse())
        lender, user = lake.create("lender"), lake.create("user")
        lender.write("2024-01-01")
        user.write("2024-01-01")
        needed, late = write_outside(user, lender.path), write_outside(user, lender.path)
        orphan = needed.with_name(f"data-{uuid4()}-0.parquet")
        shutil.copy(needed, orphan)
        age_everything(site.warehouse())
        commit = user.path / "snapshot/snapshot-3"
        shutil.move(commit, tmp_path)  # not yet made
        user.put("snapshot/LATEST", "2")
        seen = site.plan(ORPHANS)
        assert {plan.refusal for plan in seen.plan.tables} == {None}
        assert seen.orphans("lake.db.lender") == {orphan, late}
        shutil.move(tmp_path / commit.name, commit)
        user.put("snapshot/LATEST", "3")
        result = site.apply(seen)
        assert result.deleted.files == 1
        assert (needed.exists(), late.exists(), orphan.exists()) == (True, True, False)
