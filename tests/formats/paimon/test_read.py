"""A Paimon table is read as one moment shows it, whatever happens to it meanwhile, or it is not read at all."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pypaimon.consumer.consumer import Consumer

from lakewarden.formats.paimon.metadata.read import TRIES, read_table
from lakewarden.formats.paimon.metadata.state import table_state
from lakewarden.formats.paimon.metadata.table import PaimonTable
from lakewarden.model.errors import StoreUnavailableError, UnreadableMetadataError, UnsettledTableError
from lakewarden.storage.stores import Stores
from tests.formats.paimon.tables import Lake, LakeTable, Meddled, upload
from tests.support.lakes import local_path
from tests.support.storage import Seaweed

STORES = Stores()


@pytest.fixture
def table(tmp_path: Path) -> LakeTable:
    """Three days, one commit each."""
    made = Lake(tmp_path / "wh").create("t")
    made.write("2024-01-01", "2024-01-02", "2024-01-03")
    return made


def read(table: LakeTable, files: Stores | Meddled = STORES) -> PaimonTable:
    return read_table(table.location, files, sleep=lambda _: None)


def ids(table: PaimonTable, branch: int = 0) -> list[int]:
    return [snapshot.id for snapshot in table.branches[branch].snapshots]


def test_snapshots_and_schema(table: LakeTable) -> None:
    found = read(table)
    assert ids(found) == [1, 2, 3]
    assert found.main.latest is not None
    assert found.main.latest.base == table.json("snapshot/snapshot-3")["baseManifestList"]
    assert found.main.schema.partition_keys == ("dt",)
    assert found.main.schema.options == {"bucket": "-1"}
    assert [field["name"] for field in found.main.schema.fields] == ["id", "dt", "v"]
    assert (found.main.latest_hint, found.main.earliest_hint) == (3, None)
    assert found.first_schema == (table.path / "schema/schema-0").read_bytes()


def test_ids_are_ordered_by_number(tmp_path: Path) -> None:
    table = Lake(tmp_path / "wh").create("t")
    table.write(*["2024-01-01"] * 11)
    assert ids(read(table)) == list(range(1, 12))


def test_tags_branches_and_consumers(table: LakeTable) -> None:
    opened = table.opened
    opened.create_tag("t2", 2)
    opened.branch_manager().create_branch("b1", "t2")
    table.write("2024-02-01", branch="b1")
    opened.consumer_manager().reset_consumer("reader", Consumer(2))
    found = read(table)
    main, branch = found.branches
    assert [(tag.name, tag.snapshot.id) for tag in main.tags] == [("t2", 2)]
    assert main.consumers == {"reader": 2}
    assert (branch.name, branch.directory) == ("b1", f"{table.location}branch/branch-b1/")
    assert ids(found, 1) == [2, 3]
    assert [tag.name for tag in branch.tags] == ["t2"]
    assert branch.snapshots[-1].base != main.snapshots[-1].base


def test_the_newest_schema_has_the_options(table: LakeTable) -> None:
    table.set_options(snapshot_time__retained="2 h")
    schema = read(table).main.schema
    assert schema.id == 1
    assert schema.options["snapshot.time-retained"] == "2 h"


def test_schema_ten_is_newer_than_schema_nine(table: LakeTable) -> None:
    for number in (9, 10):
        table.put(f"schema/schema-{number}", json.dumps(table.json("schema/schema-0") | {"id": number}))
    assert read(table).main.schema.id == 10


def test_a_table_without_snapshots(tmp_path: Path) -> None:
    assert read(Lake(tmp_path / "wh").create("t")).main.latest is None


def test_changelogs_are_read(table: LakeTable) -> None:
    table.put("changelog/changelog-1", (table.path / "snapshot/snapshot-1").read_bytes())
    (table.path / "snapshot/snapshot-1").unlink()
    table.put("changelog/EARLIEST", "1")
    found = read(table)
    assert [changelog.id for changelog in found.main.changelogs] == [1]
    assert ids(found) == [2, 3]


def test_rollback_is_another_moment(table: LakeTable) -> None:
    before = read(table)
    table.opened.rollback_to(1)
    after = read(table)
    assert ids(after) == [1]
    assert after.fingerprint != before.fingerprint
    table.write("2024-03-01")
    again = read(table)
    assert ids(again) == [1, 2]
    assert again.main.snapshots[1].raw != before.main.snapshots[1].raw


def test_gaps_are_allowed(table: LakeTable) -> None:
    (table.path / "snapshot/snapshot-2").unlink()
    assert ids(read(table)) == [1, 3]


@pytest.mark.parametrize("text", ["", "garbage", "-1", "99", "3.0", "9" * 40, "²", "\xff"])
def test_hints_that_lie_are_only_hints(table: LakeTable, text: str) -> None:
    honest = read(table)
    table.put("snapshot/LATEST", text)
    table.put("snapshot/EARLIEST", text)
    found = read(table)
    assert ids(found) == [1, 2, 3]
    assert found.main.latest_hint == (99 if text == "99" else None)
    assert found.fingerprint == honest.fingerprint


def test_names_that_are_no_metadata_are_ignored(table: LakeTable) -> None:
    before = read(table)
    for name in (
        "snapshot-abc",
        "snapshot-007",
        "snapshot-",
        "snapshot-+4",
        "snapshot-4.bak",
        "snapshot--4",
        "x",
        "SNAPSHOT-4",
    ):
        table.put(f"snapshot/{name}")
    table.put("snapshot/snapshot-99999999999999999999")
    table.put("snapshot/.snapshot-9.6d5a3c52-58c5-5d4f-9e57-0a7d8a4f9b61.tmp")
    table.put("tag/tag-success-file/t_SUCCESS")
    table.put("tag/note")
    table.put("schema/schema-01")
    table.put("branch/readme")
    table.put("branch/other/snapshot/snapshot-1")
    assert read(table) == before


@pytest.mark.parametrize(
    "name", ["snapshot/snapshot-2", "tag/tag-t2", "schema/schema-0", "consumer/consumer-c", "changelog/changelog-1"]
)
@pytest.mark.parametrize("text", [b"", b"{", b"[]", b"{}", b"\xff\xfe", b'{"id": "2"}'])
def test_damaged_files_are_refused_by_name(table: LakeTable, name: str, text: bytes) -> None:
    table.put(name, text)
    with pytest.raises(UnreadableMetadataError, match=name):
        read(table)


@pytest.mark.parametrize("name", ["snapshot/snapshot-2", "schema/schema-0"])
def test_a_file_that_says_it_is_another_is_refused(table: LakeTable, name: str) -> None:
    table.change(name, id=7)
    with pytest.raises(UnreadableMetadataError, match="number 7"):
        read(table)


def test_a_changelog_that_says_it_is_another_is_refused(table: LakeTable) -> None:
    table.put("changelog/changelog-9", (table.path / "snapshot/snapshot-1").read_bytes())
    with pytest.raises(UnreadableMetadataError, match="changelog-9"):
        read(table)


def test_unknown_fields_are_no_damage(table: LakeTable) -> None:
    table.change("snapshot/snapshot-3", somethingNew={"a": 1})
    found = read(table)
    assert found.main.snapshots[-1].document["somethingNew"] == {"a": 1}


def test_a_branch_without_a_schema_is_refused(table: LakeTable) -> None:
    (table.path / "branch/branch-b1/snapshot").mkdir(parents=True)
    with pytest.raises(UnreadableMetadataError, match="branch b1"):
        read(table)


def test_a_directory_without_a_schema_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnreadableMetadataError, match="no schema"):
        read_table(f"file://{tmp_path}/nothing/", STORES, sleep=lambda _: None)


def test_a_link_among_the_metadata_is_refused(table: LakeTable) -> None:
    (table.path / "snapshot/snapshot-4").symlink_to(table.path / "snapshot/snapshot-3")
    with pytest.raises(StoreUnavailableError, match="snapshot-4"):
        read(table)


class TestWhileItIsRead:
    def test_an_expiry_between_listing_and_reading(self, table: LakeTable) -> None:
        """apache/paimon#7710: a listed snapshot that is gone must never be an empty one."""

        def expire(reading: int) -> None:
            if reading == 0:
                (table.path / "snapshot/snapshot-1").unlink()

        files = Meddled(STORES, before_read=expire)
        assert ids(read(table, files)) == [2, 3]
        assert files.reads > 1

    def test_a_tag_made_after_the_listing(self, table: LakeTable) -> None:
        def tag(reading: int) -> None:
            if reading == 0:
                table.opened.create_tag("late", 1)

        assert [tag.name for tag in read(table, Meddled(STORES, before_read=tag)).main.tags] == ["late"]

    def test_a_branch_made_after_the_listing(self, table: LakeTable) -> None:
        table.opened.create_tag("t2", 2)

        def branch(reading: int) -> None:
            if reading == 0:
                table.opened.branch_manager().create_branch("late", "t2")

        found = read(table, Meddled(STORES, before_read=branch))
        assert [branch.name for branch in found.branches] == ["main", "late"]

    def test_a_snapshot_replaced_under_its_name(self, table: LakeTable) -> None:
        def again(reading: int) -> None:
            if reading == 0:
                table.opened.rollback_to(1)
                table.write("2024-03-01", "2024-03-02")

        found = read(table, Meddled(STORES, before_read=again))
        assert [s.raw for s in found.main.snapshots] == [
            (table.path / f"snapshot/snapshot-{n}").read_bytes() for n in (1, 2, 3)
        ]

    def test_a_file_that_is_only_half_written(self, table: LakeTable) -> None:
        whole = (table.path / "snapshot/snapshot-3").read_bytes()
        table.put("snapshot/snapshot-3", whole[:40])

        def finish(reading: int) -> None:
            if reading == 2:
                table.put("snapshot/snapshot-3", whole)

        assert ids(read(table, Meddled(STORES, before_read=finish))) == [1, 2, 3]

    def test_hints_may_come_go_and_move_all_the_time(self, table: LakeTable) -> None:
        def meddle(number: int) -> None:
            table.put("snapshot/LATEST", str(number))
            if number >= 6:  # the second listing of a table without branches
                (table.path / "snapshot/LATEST").unlink()

        files = Meddled(STORES, before_list=meddle)
        assert ids(read(table, files)) == [1, 2, 3]
        assert files.reads == 2  # the files, and the hints

    def test_a_table_that_never_holds_still_is_refused(self, table: LakeTable) -> None:
        pauses: list[float] = []
        files = Meddled(
            STORES, before_read=lambda number: table.put("consumer/consumer-c", json.dumps({"nextSnapshot": number}))
        )
        with pytest.raises(UnsettledTableError, match=r"db\.db/t/"):
            read_table(table.location, files, sleep=pauses.append)
        assert len(pauses) == TRIES - 1
        assert pauses == sorted(pauses)

    def test_a_file_that_is_listed_and_never_there_is_refused(self, table: LakeTable) -> None:
        class Blind(Meddled):
            def get_many(self, uris):  # type: ignore[no-untyped-def]
                return [
                    FileNotFoundError(uri) if uri.endswith("snapshot-2") else answer
                    for uri, answer in zip(uris, super().get_many(uris), strict=True)
                ]

        with pytest.raises(UnsettledTableError, match="snapshot-2"):
            read(table, Blind(STORES))

    def test_a_store_that_fails_is_not_an_empty_table(self, table: LakeTable) -> None:
        class Broken(Meddled):
            def get_many(self, uris):  # type: ignore[no-untyped-def]
                return [
                    StoreUnavailableError("no answer") if uri.endswith("tag-t2") else answer
                    for uri, answer in zip(uris, super().get_many(uris), strict=True)
                ]

        table.opened.create_tag("t2", 2)
        with pytest.raises(StoreUnavailableError):
            read(table, Broken(STORES))


class TestFingerprint:
    def test_it_stays_while_only_data_is_written(self, table: LakeTable) -> None:
        before = read(table).fingerprint
        table.put("manifest/manifest-x")
        table.put("dt=2024-01-01/bucket-0/data-x.parquet")
        assert read(table).fingerprint == before

    @pytest.mark.parametrize("name", ["tag/tag-a", "snapshot/snapshot-4", "branch/branch-a/schema/schema-0"])
    def test_it_changes_with_every_ref(self, table: LakeTable, name: str) -> None:
        before = read(table).fingerprint
        source = table.path / ("schema/schema-0" if "schema" in name else "snapshot/snapshot-3")
        table.put(name, source.read_bytes().replace(b'"id": 3', b'"id": 4'))
        assert read(table).fingerprint != before

    def test_it_changes_with_a_consumer(self, table: LakeTable) -> None:
        manager = table.opened.consumer_manager()
        seen = [read(table).fingerprint]
        for snapshot in (2, 3):
            manager.reset_consumer("c", Consumer(snapshot))
            seen.append(read(table).fingerprint)
        assert len(set(seen)) == 3

    def test_it_changes_when_a_branch_is_only_a_directory(self, table: LakeTable) -> None:
        from lakewarden.formats.paimon.metadata.listing import fingerprint, list_metadata

        before = fingerprint(list_metadata(table.location, STORES))
        (table.path / "branch/branch-b").mkdir(parents=True)
        assert fingerprint(list_metadata(table.location, STORES)) != before


def test_the_same_on_an_object_store(table: LakeTable, seaweed: Seaweed) -> None:
    table.opened.create_tag("t2", 2)
    table.opened.branch_manager().create_branch("b1", "t2")
    stores, root = seaweed.fresh()
    upload(table, stores, f"{root}t/")
    there, here = read_table(f"{root}t/", stores, sleep=lambda _: None), read(table)
    assert [(b.name, b.snapshots, b.tags, b.schema) for b in there.branches] == [
        (b.name, b.snapshots, b.tags, b.schema) for b in here.branches
    ]
    stores.put(f"{root}t/consumer/consumer-c", b'{"nextSnapshot": 1}')
    assert read_table(f"{root}t/", stores).fingerprint != there.fingerprint


def test_a_directory_where_a_snapshot_belongs_and_a_snapshot_that_only_the_hint_knows_refuse_the_table(
    table: LakeTable,
) -> None:
    """The newest snapshot is lost, and the one before it does not name what only the newest needs."""
    newest = local_path(f"{table.location}snapshot/snapshot-3")
    kept = newest.rename(newest.with_name("elsewhere"))
    found = table_state("p.db.t", read(table), "u")
    assert found.refusal is not None
    assert "LATEST names snapshot 3, and the newest that is there is 2" in found.refusal.message
    newest.mkdir()
    with pytest.raises(StoreUnavailableError, match="is a directory, where a file of the table belongs"):
        read(table)
    newest.rmdir()
    kept.rename(newest)
    assert table_state("p.db.t", read(table), "u").refusal is None
