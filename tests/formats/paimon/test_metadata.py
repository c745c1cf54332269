"""What a Paimon table says it needs: every list of every branch, snapshot, tag and changelog, and where its files lie."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakewarden.formats.paimon.metadata.read import read_table
from lakewarden.formats.paimon.metadata.state import table_state, table_uuid
from lakewarden.model.table import TableState
from lakewarden.model.verdict import Kind
from lakewarden.storage.stores import Stores
from tests.formats.paimon.tables import Lake, LakeTable

STORES = Stores()
OTHER = "manifest-list-00000000-0000-0000-0000-000000000000-9"


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path / "wh")


@pytest.fixture
def table(lake: Lake) -> LakeTable:
    made = lake.create("t")
    made.write("2024-01-01", "2024-01-02", "2024-01-03")
    return made


def state(table: LakeTable) -> TableState:
    found = read_table(table.location, STORES, sleep=lambda _: None)
    return table_state("p.db.t", found, table_uuid(found))


def lists(table: LakeTable, *, soft: bool = False) -> set[str]:
    return {
        item.uri.removeprefix(f"{table.location}manifest/") for item in state(table).manifest_lists if item.soft == soft
    }


def named(table: LakeTable, kind: Kind) -> set[str]:
    return {file.uri.removeprefix(table.location) for file in state(table).files if file.kind is kind}


def on_disk(table: LakeTable, prefix: str) -> set[str]:
    return {name for name in table.files() if name.startswith(prefix)}


def test_a_plain_table(table: LakeTable) -> None:
    found = state(table)
    assert found.refusal is None
    assert (found.format, found.identifier, found.location) == ("paimon", "p.db.t", table.location)
    assert found.metadata_location == f"{table.location}#{read_table(table.location, STORES).fingerprint}"
    assert found.roots == (table.location,)
    assert (found.current_snapshot_id, found.snapshot_ids, found.format_version) == (3, frozenset({1, 2, 3}), 3)
    assert found.properties == {"bucket": "-1"}
    assert found.updated_ms == table.json("snapshot/snapshot-3")["timeMillis"]
    assert [(ref.name, ref.snapshot_id, ref.kind) for ref in found.refs] == [("main", 3, "branch")]


def test_every_list_on_disk_is_named_once(table: LakeTable) -> None:
    assert named(table, Kind.MANIFEST_LIST) == on_disk(table, "manifest/manifest-list-")
    found = state(table).manifest_lists
    assert len(found) == len({item.uri for item in found}) == 6
    assert not any(item.soft for item in found)


def test_a_table_without_snapshots(lake: Lake) -> None:
    found = state(lake.create("t"))
    assert found.refusal is None
    assert (found.current_snapshot_id, found.manifest_lists, found.files) == (None, (), ())


def test_tags_and_branches(table: LakeTable) -> None:
    table.opened.create_tag("t2", 2)
    table.opened.branch_manager().create_branch("b1", "t2")
    table.write("2024-02-01", branch="b1")
    (table.path / "snapshot/snapshot-1").unlink()
    (table.path / "snapshot/snapshot-2").unlink()
    found = state(table)
    assert {(ref.name, ref.snapshot_id, ref.kind) for ref in found.refs} == {
        ("main", 3, "branch"), ("t2", 2, "tag"), ("b1", 3, "branch"), ("b1/t2", 2, "tag"),
    }  # fmt: skip
    expected = {
        table.json(file)[field]
        for file in ("snapshot/snapshot-3", "tag/tag-t2", "branch/branch-b1/snapshot/snapshot-3")
        for field in ("baseManifestList", "deltaManifestList")
    }
    assert lists(table) == expected
    assert len(expected) == 6


def test_a_branch_without_snapshots_is_a_ref(table: LakeTable) -> None:
    table.put("branch/branch-new/schema/schema-0", (table.path / "schema/schema-0").read_bytes())
    assert ("new", 0) in {(ref.name, ref.snapshot_id) for ref in state(table).refs}


def test_index_manifests_and_statistics(lake: Lake) -> None:
    table = lake.create("t", primary_keys=["dt", "id"])
    table.write("2024-01-01", "2024-01-02")
    statistics = "stat-6d5a3c52-58c5-5d4f-9e57-0a7d8a4f9b61-0"
    table.change("snapshot/snapshot-2", statistics=statistics)
    assert {item.uri.removeprefix(table.location) for item in state(table).manifests} == on_disk(
        table, "manifest/index-manifest-"
    )
    assert {item.kind for item in state(table).manifests} == {Kind.INDEX}
    assert named(table, Kind.MANIFEST) == on_disk(table, "manifest/index-manifest-")
    assert named(table, Kind.STATISTICS) == {f"statistics/{statistics}"}


class TestChangelogs:
    """Which mentions of a list may outlive the list: as the format's own expiry leaves things."""

    @pytest.fixture
    def table(self, lake: Lake) -> LakeTable:
        made = lake.create("t", {"bucket": "1", "changelog-producer": "input"}, primary_keys=["dt", "id"])
        made.write("2024-01-01", "2024-01-02", "2024-01-03")
        return made

    def lists_of(self, table: LakeTable, name: str) -> tuple[str, str, str]:
        snapshot = table.json(name)
        return snapshot["baseManifestList"], snapshot["deltaManifestList"], snapshot["changelogManifestList"]

    def test_a_snapshots_changelog_is_needed(self, table: LakeTable) -> None:
        assert set(self.lists_of(table, "snapshot/snapshot-1")) <= lists(table)
        assert lists(table, soft=True) == set()

    def test_a_tags_changelog_may_have_gone_with_its_snapshot(self, table: LakeTable) -> None:
        table.opened.create_tag("t2", 2)
        base, delta, changelog = self.lists_of(table, "tag/tag-t2")
        # While the snapshot is there, its own mention counts.
        assert {base, delta, changelog} <= lists(table)
        assert lists(table, soft=True) == set()
        (table.path / "snapshot/snapshot-2").unlink()
        assert {base, delta} <= lists(table)
        assert lists(table, soft=True) == {changelog}
        assert f"manifest/{changelog}" not in named(table, Kind.MANIFEST_LIST)

    def test_the_first_snapshot_of_a_branch_is_a_copied_tag(self, table: LakeTable) -> None:
        """Its changelog is needed while it is there, and may have gone with the snapshot that was copied."""
        table.opened.create_tag("t2", 2)
        table.opened.branch_manager().create_branch("b1", "t2")
        table.write("2024-02-01", branch="b1")
        base, delta, changelog = self.lists_of(table, "snapshot/snapshot-2")
        *_, own = self.lists_of(table, "branch/branch-b1/snapshot/snapshot-3")
        (table.path / "snapshot/snapshot-2").unlink()
        assert {base, delta, changelog, own} <= lists(table)
        (table.path / "manifest" / changelog).unlink()
        assert {base, delta, own} <= lists(table)
        assert lists(table, soft=True) == {changelog}

    def test_a_fast_forward_brings_such_a_snapshot_to_main(self, table: LakeTable) -> None:
        (table.path / "snapshot/snapshot-1").unlink()
        base, delta, changelog = self.lists_of(table, "snapshot/snapshot-2")
        (table.path / "manifest" / changelog).unlink()
        assert {base, delta} <= lists(table)
        assert lists(table, soft=True) == {changelog}

    def test_a_later_snapshots_changelog_must_be_there(self, table: LakeTable) -> None:
        *_, changelog = self.lists_of(table, "snapshot/snapshot-2")
        (table.path / "manifest" / changelog).unlink()
        assert changelog in lists(table)

    def decouple(self, table: LakeTable, number: int) -> None:
        (table.path / "changelog").mkdir(exist_ok=True)
        (table.path / f"snapshot/snapshot-{number}").rename(table.path / f"changelog/changelog-{number}")

    def test_a_decoupled_changelog_keeps_its_changelog_list(self, table: LakeTable) -> None:
        base, delta, changelog = self.lists_of(table, "snapshot/snapshot-1")
        self.decouple(table, 1)
        assert changelog in lists(table)
        assert {base, delta} == lists(table, soft=True)

    def test_one_that_has_a_list_was_made_when_the_table_produced_them(self, table: LakeTable) -> None:
        base, delta, changelog = self.lists_of(table, "snapshot/snapshot-1")
        self.decouple(table, 1)
        table.set_options(changelog__producer="none")
        assert changelog in lists(table)
        assert {base, delta} == lists(table, soft=True)

    def test_one_without_a_list_is_not_read_where_others_have_one(self, table: LakeTable) -> None:
        """An append between full compactions has no changelog of its own, and expiry took its base and delta."""
        base, delta, _ = self.lists_of(table, "snapshot/snapshot-1")
        self.decouple(table, 1)
        table.change("changelog/changelog-1", changelogManifestList=None)
        assert {base, delta} == lists(table, soft=True)

    def test_one_of_a_table_without_changelog_files_is_its_delta(self, table: LakeTable) -> None:
        base, delta, _ = self.lists_of(table, "snapshot/snapshot-1")
        self.decouple(table, 1)
        table.change("changelog/changelog-1", changelogManifestList=None)
        table.set_options(changelog__producer="none")
        assert {base, delta} <= lists(table)
        assert lists(table, soft=True) == set()

    def test_index_and_statistics_of_a_decoupled_changelog_went_with_its_snapshot(self, table: LakeTable) -> None:
        index = "index-manifest-00000000-0000-0000-0000-000000000000"
        table.change("snapshot/snapshot-1", indexManifest=index, statistics="stat-x")
        self.decouple(table, 1)
        assert [(item.uri.rpartition("/")[2], item.soft) for item in state(table).manifests] == [(index, True)]
        assert named(table, Kind.STATISTICS) == named(table, Kind.MANIFEST) == set()


class TestRoots:
    def test_external_paths_and_the_data_directory(self, lake: Lake, tmp_path: Path) -> None:
        outside = f"file://{tmp_path}/one, {tmp_path}/two/"
        options = {
            "data-file.external-paths": outside,
            "data-file.external-paths.strategy": "round-robin",
            "data-file.path-directory": "d1/d2",
            "global-index.external-path": f"file://{tmp_path}/indexes",
        }
        table = lake.create("t", options)
        found = state(table)
        assert found.refusal is None
        assert set(found.roots) == {
            *(table.location, f"{table.location}d1/d2/"),
            *(f"file://{tmp_path}/{name}/" for name in ("one", "two", "indexes")),
            *(f"file://{tmp_path}/{name}/d1/d2/" for name in ("one", "two", "indexes")),
        }
        assert found.roots[0] == table.location

    def test_a_branchs_own_external_path(self, table: LakeTable, tmp_path: Path) -> None:
        table.put("branch/branch-b/schema/schema-0", (table.path / "schema/schema-0").read_bytes())
        options = {"data-file.external-paths": f"file://{tmp_path}/b"}
        table.change("branch/branch-b/schema/schema-0", options=options)
        assert state(table).roots == (table.location, f"file://{tmp_path}/b/")


class TestRefusals:
    """Each is refused by code and still says what it reaches."""

    @pytest.mark.parametrize(
        ("options", "said"),
        [
            ({"manifest_format": "orc"}, "manifest.format=orc"),
            ({"chain__table_enabled": "TRUE"}, "chain table"),
            ({"type": "format-table"}, "type=format-table"),
            ({"type": "OBJECT_TABLE"}, "type=object-table"),
            ({"data__file_path__directory": "../other"}, "path-directory"),
            ({"data__file_path__directory": "/abs"}, "path-directory"),
            ({"data__file_path__directory": "a//b"}, "path-directory"),
            ({"data__file_path__directory": "s3:x"}, "path-directory"),
            ({"data__file_path__directory": "manifest"}, "path-directory"),
            ({"data__file_external__paths": "relative/path"}, "relative/path"),
            ({"global__index_external__path": "s3://b/../c"}, "no address"),
        ],
    )
    def test_options(self, table: LakeTable, options: dict[str, str], said: str) -> None:
        table.set_options(**options)
        found = state(table)
        assert found.refusal is not None
        assert found.refusal.code == "LW-TABLE-003"
        assert said in found.refusal.message
        assert len(found.manifest_lists) == 6
        assert found.roots == (table.location,)
        assert found.uuid

    @pytest.mark.parametrize(
        "options",
        [
            {"manifest_format": "AVRO"},
            {"chain__table_enabled": "false"},
            {"type": "table"},
            {"type": "materialized-table"},
        ],
    )
    def test_options_that_are_fine(self, table: LakeTable, options: dict[str, str]) -> None:
        table.set_options(**options)
        assert state(table).refusal is None

    def test_an_option_of_a_branch(self, table: LakeTable) -> None:
        table.put("branch/branch-b/schema/schema-0", (table.path / "schema/schema-0").read_bytes())
        table.change("branch/branch-b/schema/schema-0", options={"manifest.format": "parquet"})
        refusal = state(table).refusal
        assert refusal is not None
        assert "branch b" in refusal.message

    @pytest.mark.parametrize("version", [4, "x"])
    @pytest.mark.parametrize("name", ["snapshot/snapshot-1", "tag/tag-t2"])
    def test_a_newer_snapshot_version(self, table: LakeTable, name: str, version: object) -> None:
        table.opened.create_tag("t2", 2)
        table.change(name, version=version)
        found = state(table)
        assert found.refusal is not None
        assert (found.refusal.code, len(found.manifest_lists)) == ("LW-TABLE-003", 6)

    def test_an_old_snapshot_has_no_version(self, table: LakeTable) -> None:
        table.change("snapshot/snapshot-1", version=None)
        assert state(table).refusal is None

    @pytest.mark.parametrize("name", ["../x", "a/b", ""])
    def test_a_list_that_is_no_bare_name(self, table: LakeTable, name: str) -> None:
        table.change("snapshot/snapshot-3", baseManifestList=name)
        refusal = state(table).refusal
        assert refusal is not None
        assert refusal.code == "LW-TABLE-001"

    def test_snapshots_that_are_all_gone(self, table: LakeTable) -> None:
        """Somebody emptied the directory: every file of the table would look like an orphan."""
        table.opened.create_tag("t2", 2)
        for number in (1, 2, 3):
            (table.path / f"snapshot/snapshot-{number}").unlink()
        found = state(table)
        assert found.refusal is not None
        assert (found.refusal.code, "snapshot 3" in found.refusal.message) == ("LW-TABLE-001", True)
        assert len(found.manifest_lists) == 2


class TestUuid:
    def test_it_stays_while_the_table_lives(self, table: LakeTable) -> None:
        before = state(table).uuid
        table.set_options(snapshot_time__retained="1 h")
        table.write("2024-02-01")
        assert state(table).uuid == before

    def test_a_table_created_again_in_its_place_has_another(self, lake: Lake, table: LakeTable) -> None:
        before = state(table).uuid
        lake.catalog.drop_table("db.t", False)
        assert state(lake.create("t")).uuid != before

    def test_a_copy_elsewhere_has_another(self, lake: Lake, table: LakeTable) -> None:
        import shutil

        shutil.copytree(table.path, table.path.with_name("copy"))
        copy = LakeTable(lake, "db.copy", table.path.with_name("copy"))
        assert state(copy).uuid != state(table).uuid
