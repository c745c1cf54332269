"""A Paimon catalog names every table of its warehouse, notices every change, and never mistakes trouble for emptiness."""

from __future__ import annotations

import os
import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pypaimon import CatalogFactory, Schema

from lakewarden.formats.paimon import open_format
from lakewarden.model.errors import CatalogUnavailableError, StoreUnavailableError
from lakewarden.model.format import Format
from lakewarden.model.ports import Catalog, Directory, Files
from lakewarden.model.table import TableState
from lakewarden.storage.stores import Stores
from tests.formats.paimon.tables import COLUMNS, Lake, LakeTable, Meddled, upload
from tests.support.storage import Seaweed

STORES = Stores()
NOW = datetime.now(UTC)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path / "wh")


def catalog(warehouse: Path | str, files: Files = STORES, **properties: str) -> Format:
    return open_format("p", {"warehouse": str(warehouse), **properties}, files, lambda *_: None)


def names(found: Catalog) -> list[str]:
    return [pointer.identifier for pointer in found.pointers()]


def load(found: Catalog, name: str) -> TableState:
    (pointer,) = (pointer for pointer in found.pointers() if pointer.identifier == name)
    return found.load(pointer, NOW)


def test_every_table_of_every_database(lake: Lake) -> None:
    lake.create("b").write("2024-01-01")
    lake.create("a", database="other")
    lake.create("a")
    found = catalog(lake.path)
    assert names(found) == ["p.db.a", "p.db.b", "p.other.a"]
    assert (found.name, found.format, found.reader.format) == ("p", "paimon", "paimon")


def test_what_is_no_table_is_not_named(lake: Lake) -> None:
    table = lake.create("a")
    shutil.copytree(table.path, lake.path / "db.db" / "no_schema")
    shutil.rmtree(lake.path / "db.db/no_schema/schema")
    shutil.copytree(table.path, lake.path / "not_a_database" / "t")
    shutil.copytree(table.path, lake.path / ".db" / "t")
    (lake.path / "db.db/bad_schema/schema").mkdir(parents=True)
    (lake.path / "db.db/bad_schema/schema/schema-x").touch()
    (lake.path / "db.db/file").touch()
    (lake.path / "note").touch()
    assert names(catalog(lake.path)) == ["p.db.a"]


def test_names_with_dots_are_two_tables(lake: Lake) -> None:
    """A database called a.b with a table c, and a database a with a table b.c."""
    for database, name in (("a.b", "c"), ("a", "b.c")):
        table = lake.create("t", database=name.split(".")[0])
        (lake.path / f"{database}.db").mkdir(exist_ok=True)
        table.path.rename(lake.path / f"{database}.db" / name)
    found = catalog(lake.path)
    assert names(found) == ["p.`a.b`.c", "p.a.`b.c`"]
    places = {load(found, name).location for name in names(found)}
    assert places == {f"file://{lake.path}/a.b.db/c/", f"file://{lake.path}/a.db/b.c/"}


def test_a_pointer_is_the_state_it_loads(lake: Lake) -> None:
    lake.create("a").write("2024-01-01")
    found = catalog(lake.path)
    (pointer,) = found.pointers()
    state = found.load(pointer, NOW)
    assert state.refusal is None
    assert state.metadata_location == pointer.metadata_location
    assert state.location == f"file://{lake.path}/db.db/a/"


def test_pointers_open_no_file(lake: Lake) -> None:
    lake.create("a").write("2024-01-01")
    files = Meddled(STORES)
    names(catalog(lake.path, files))
    assert files.reads == 0


def test_only_the_table_that_changed_has_another_pointer(lake: Lake) -> None:
    one, two = lake.create("one"), lake.create("two")
    found = catalog(lake.path)
    before = dict.fromkeys(found.pointers())
    two.write("2024-01-01")
    assert [pointer.identifier for pointer in found.pointers() if pointer not in before] == ["p.db.two"]
    one.write("2024-01-01")
    one.opened.create_tag("t", 1)
    assert [pointer.identifier for pointer in found.pointers() if pointer not in before] == ["p.db.one", "p.db.two"]


def test_a_table_dropped_and_created_again_is_another(lake: Lake) -> None:
    lake.create("a").write("2024-01-01")
    found = catalog(lake.path)
    before = load(found, "p.db.a")
    lake.catalog.drop_table("db.a", False)
    lake.create("a").write("2024-01-01")
    after = load(found, "p.db.a")
    assert (after.location, after.snapshot_ids) == (before.location, before.snapshot_ids)
    assert after.uuid != before.uuid
    assert after.metadata_location != before.metadata_location


@pytest.mark.parametrize("spelling", ["{}", "file:{}", "file://{}", "file://{}/"])
def test_spellings_of_the_warehouse(lake: Lake, spelling: str) -> None:
    lake.create("a")
    assert load(catalog(spelling.format(lake.path)), "p.db.a").location == f"file://{lake.path}/db.db/a/"


class Vanishing(Meddled):
    """A directory goes as soon as the one above it has been listed, as a mount does."""

    def __init__(self, stores: Stores, lost: Path) -> None:
        super().__init__(stores)
        self._lost = lost

    def places(self, prefix: str) -> Directory:
        found = super().places(prefix)
        if prefix == f"file://{self._lost.parent}/":
            shutil.rmtree(self._lost, ignore_errors=True)
        return found


class TestTrouble:
    def test_a_damaged_table_is_refused_and_keeps_its_root(self, lake: Lake) -> None:
        table = lake.create("a")
        table.write("2024-01-01")
        lake.create("b")
        table.put("snapshot/snapshot-1", "{")
        found = catalog(lake.path)
        state = load(found, "p.db.a")
        assert state.refusal is not None
        assert state.refusal.code == "LW-TABLE-001"
        assert state.roots == (table.location,)
        assert state.metadata_location == found.pointers()[0].metadata_location
        assert load(found, "p.db.b").refusal is None

    def test_deeply_nested_json_is_refused(self, lake: Lake) -> None:
        table = lake.create("a")
        table.put("tag/tag-x", "[" * 100_000)
        refusal = load(catalog(lake.path), "p.db.a").refusal
        assert refusal is not None
        assert refusal.code == "LW-TABLE-010"

    def test_a_table_that_cannot_be_listed_is_refused_and_the_others_go_on(self, lake: Lake) -> None:
        table = lake.create("a")
        lake.create("b")
        (table.path / "snapshot").mkdir(exist_ok=True)
        (table.path / "snapshot/snapshot-1").symlink_to("/etc/hostname")
        found = catalog(lake.path)
        assert names(found) == ["p.db.a", "p.db.b"]
        state = load(found, "p.db.a")
        assert state.refusal is not None
        assert state.refusal.code == "LW-STORE-001"
        assert state.roots == (table.location,)
        assert load(found, "p.db.b").refusal is None

    def test_a_table_dropped_after_the_pointer_is_refused(self, lake: Lake) -> None:
        table = lake.create("a")
        found = catalog(lake.path)
        (pointer,) = found.pointers()
        shutil.rmtree(table.path)
        assert found.load(pointer, NOW).refusal is not None

    def test_a_warehouse_that_is_not_there(self, tmp_path: Path) -> None:
        with pytest.raises(CatalogUnavailableError, match="not there") as raised:
            catalog(tmp_path / "missing").pointers()
        assert "warehouse" in raised.value.hint

    def test_an_empty_warehouse_has_no_tables(self, tmp_path: Path) -> None:
        (tmp_path / "wh").mkdir()
        assert names(catalog(tmp_path / "wh")) == []

    @pytest.mark.parametrize("warehouse", ["relative/wh", "file://host/wh"])
    def test_a_warehouse_that_is_no_address(self, warehouse: str) -> None:
        with pytest.raises(CatalogUnavailableError, match="warehouse"):
            catalog(warehouse).pointers()

    def test_no_warehouse(self) -> None:
        with pytest.raises(CatalogUnavailableError, match="warehouse"):
            open_format("p", {}, STORES, lambda *_: None).pointers()

    def test_a_link_to_a_database_is_refused_and_the_others_go_on(self, lake: Lake, tmp_path: Path) -> None:
        lake.create("a")
        (tmp_path / "elsewhere.db").mkdir()
        (lake.path / "linked.db").symlink_to(tmp_path / "elsewhere.db")
        found = catalog(lake.path)
        assert names(found) == ["p.db.a", "p.linked"]
        state = load(found, "p.linked")
        assert state.refusal is not None
        assert (state.refusal.code, state.roots) == ("LW-STORE-003", (f"file://{lake.path}/linked.db/",))
        assert "linked.db" in state.refusal.message
        assert load(found, "p.db.a").refusal is None

    @pytest.mark.parametrize("name", [b"stray", b"no\xffutf8", b"bell\x07"])
    def test_an_odd_name_in_a_database_is_refused_and_the_others_go_on(
        self, lake: Lake, tmp_path: Path, name: bytes
    ) -> None:
        table = lake.create("a")
        table.write("2024-01-01")
        outside = Lake(tmp_path / "other").create("t")
        there = os.fsencode(lake.path / "db.db") + b"/" + name
        os.symlink(os.fsencode(outside.path), there) if name == b"stray" else os.mkdir(there)
        found = catalog(lake.path)
        first, second = sorted(found.pointers(), key=lambda pointer: pointer.identifier)
        assert first.identifier == "p.db.a"
        assert found.load(first, NOW).refusal is None
        state = found.load(second, NOW)
        assert state.refusal is not None
        assert state.refusal.code == "LW-STORE-003"
        assert f"file://{lake.path}/db.db/" in state.refusal.message
        assert [root.startswith(f"file://{lake.path}/db.db/") for root in state.roots] == [True]
        assert found.pointers() == [first, second]

    def test_links_beside_the_databases_are_nobodys(self, lake: Lake) -> None:
        lake.create("a")
        (lake.path / "readme").symlink_to("/etc/hostname")
        assert names(catalog(lake.path)) == ["p.db.a"]

    @pytest.mark.parametrize("kept", ["snapshot", "manifest", "tag", "changelog", "consumer", "branch"])
    def test_a_table_whose_schema_is_lost_is_refused(self, lake: Lake, kept: str) -> None:
        """It may need files anywhere, and nobody can say which."""
        table = lake.create("a")
        table.write("2024-01-01")
        lake.create("b")
        table.opened.create_tag("t", 1)
        table.opened.branch_manager().create_branch("side", "t")
        table.put("changelog/changelog-1", (table.path / "snapshot/snapshot-1").read_bytes())
        table.put("consumer/consumer-c", '{"nextSnapshot": 1}')
        for directory in table.path.iterdir():
            if directory.name != kept:
                shutil.rmtree(directory)
        found = catalog(lake.path)
        assert names(found) == ["p.db.a", "p.db.b"]
        state = load(found, "p.db.a")
        assert state.refusal is not None
        assert (state.refusal.code, state.roots) == ("LW-TABLE-001", (table.location,))
        assert f"{table.location}schema/" in state.refusal.message
        assert load(found, "p.db.b").refusal is None

    @pytest.mark.parametrize("sign", ["manifest", "tag", "changelog", "consumer", "branch"])
    def test_a_table_whose_snapshots_are_lost_is_no_empty_one(self, lake: Lake, sign: str) -> None:
        """The hints went with them; something else says that there were commits."""
        table = lake.create("a")
        table.write("2024-01-01", "2024-01-02")
        table.opened.create_tag("t", 1)
        if sign == "branch":
            table.opened.branch_manager().create_branch("side", "t")
            shutil.rmtree(table.path / "branch/branch-side/snapshot")
        else:
            table.put("changelog/changelog-1", (table.path / "snapshot/snapshot-1").read_bytes())
            table.put("consumer/consumer-c", '{"nextSnapshot": 2}')
            for directory in ("snapshot", "manifest", "tag", "changelog", "consumer"):
                if directory != sign:
                    shutil.rmtree(table.path / directory, ignore_errors=True)
        refusal = load(catalog(lake.path), "p.db.a").refusal
        assert refusal is not None
        assert refusal.code == "LW-TABLE-001"
        assert "no snapshot file" in refusal.message
        assert sign in refusal.message

    def test_a_table_that_nobody_has_written_to(self, lake: Lake) -> None:
        """Data files come before the first commit, and a reader may wait for it."""
        table = lake.create("a")
        table.put("dt=2024-01-01/bucket-0/data-6d5a3c52-58c5-5d4f-9e57-0a7d8a4f9b61-0.parquet")
        table.put("consumer/consumer-c", '{"nextSnapshot": 1}')
        assert load(catalog(lake.path), "p.db.a").refusal is None

    @pytest.mark.parametrize("directory", ["metadata", "bucket-0", "dt=2024-01-01/bucket-0", "schema", "manifest"])
    def test_a_directory_that_was_never_a_table(self, lake: Lake, directory: str) -> None:
        """What another format, or nobody, put among the tables."""
        lake.create("a")
        place = lake.path / "db.db/other" / directory
        place.mkdir(parents=True)
        (place / "00000-x.metadata.json").touch()
        assert names(catalog(lake.path)) == ["p.db.a"]

    @pytest.mark.parametrize("lost", ["db.db", "db.db/a"])
    def test_a_directory_that_vanishes_while_it_is_looked_at_is_an_error(self, lake: Lake, lost: str) -> None:
        lake.create("a").write("2024-01-01")
        lake.create("b", database="other")
        files = Vanishing(STORES, lake.path / lost)
        with pytest.raises(CatalogUnavailableError, match=lost):
            catalog(lake.path, files).pointers()

    def test_an_empty_database_is_one(self, lake: Lake) -> None:
        lake.create("a")
        (lake.path / "new.db").mkdir()
        (lake.path / "db.db/new").mkdir()
        assert names(catalog(lake.path)) == ["p.db.a"]

    def test_a_database_that_cannot_be_listed_is_not_an_empty_one(self, lake: Lake) -> None:
        lake.create("a")

        class Broken(Meddled):
            def places(self, prefix: str) -> Directory:
                if prefix.endswith(".db/"):
                    raise StoreUnavailableError("no answer")
                return super().places(prefix)

        with pytest.raises(StoreUnavailableError):
            catalog(lake.path, Broken(STORES)).pointers()


class TestMetastores:
    def jdbc(self, tmp_path: Path) -> dict[str, str]:
        return {
            "metastore": "jdbc",
            "warehouse": f"file://{tmp_path}/wh",
            "uri": f"jdbc:sqlite:{tmp_path}/catalog.db",
        }

    def create(self, properties: dict[str, str]) -> None:
        made = CatalogFactory.create(properties)
        made.create_database("db", True)
        made.create_table(
            "db.t", Schema.from_pyarrow_schema(COLUMNS, partition_keys=["dt"], options={"bucket": "-1"}), False
        )
        made.close()

    def test_tables_of_a_database_catalog(self, tmp_path: Path, lake: Lake) -> None:
        properties = self.jdbc(tmp_path)
        self.create(properties)
        LakeTable(lake, "db.t", lake.path / "db.db/t").write("2024-01-01")
        found = open_format("p", properties, STORES, lambda *_: None)
        assert names(found) == ["p.db.t"]
        state = load(found, "p.db.t")
        assert (state.refusal, state.current_snapshot_id) == (None, 1)
        assert [found.pointer("p.db.t")] == found.pointers()
        assert found.pointer("p.db.nothing") is None
        assert found.pointer("p.nowhere.t") is None

    def test_a_table_whose_directory_is_gone_fails_the_catalog(self, tmp_path: Path) -> None:
        properties = self.jdbc(tmp_path)
        self.create(properties)
        shutil.rmtree(tmp_path / "wh/db.db/t")
        with pytest.raises(CatalogUnavailableError, match="catalog p"):
            open_format("p", properties, STORES, lambda *_: None).pointers()

    def test_a_metastore_that_is_not_known(self, tmp_path: Path) -> None:
        with pytest.raises(CatalogUnavailableError, match="hive"):
            catalog(tmp_path, metastore="hive").pointers()

    def test_a_server_that_does_not_answer(self, tmp_path: Path) -> None:
        properties = {"metastore": "rest", "uri": "http://127.0.0.1:9", "token.provider": "bear", "token": "x"}
        with pytest.raises(CatalogUnavailableError, match="catalog p"):
            catalog("wh", **properties).pointers()

    def test_a_table_that_a_server_manages_is_refused(self, lake: Lake) -> None:
        """Its tags and branches live on the server: the files are not the whole story."""
        lake.create("a").write("2024-01-01")
        (pointer,) = catalog(lake.path).pointers()
        state = catalog(lake.path, metastore="rest").load(pointer, NOW)
        assert state.refusal is not None
        assert state.refusal.code == "LW-TABLE-003"
        assert len(state.manifest_lists) == 2


def test_on_an_object_store(lake: Lake, seaweed: Seaweed) -> None:
    table = lake.create("a")
    table.write("2024-01-01")
    stores, root = seaweed.fresh()
    upload(table, stores, f"{root}wh/db.db/a/")
    stores.put(f"{root}wh/db.db/note", b"x")
    found = catalog(f"{root}wh".replace("s3://", "s3a://"), stores)
    assert names(found) == ["p.db.a"]
    state = load(found, "p.db.a")
    assert (state.refusal, state.location) == (None, f"{root}wh/db.db/a/")
    with pytest.raises(CatalogUnavailableError):
        catalog(f"{root}nothing", stores).pointers()


def test_one_table_asked_for_alone_is_the_one_among_all(lake: Lake) -> None:
    lake.create("a").write("2024-01-01")
    lake.create("a", database="other")
    found = catalog(lake.path)
    for pointer in found.pointers():
        assert found.pointer(pointer.identifier) == pointer
    for unknown in ("p.db.b", "p.nowhere.a"):
        assert found.pointer(unknown) is None
