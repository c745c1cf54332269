"""The histories are what they claim to be: every ref shows its rows, and the metadata has the shape."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.formats.paimon import java
from tests.formats.paimon.histories import NAMES, WITH_JAVA, Library, age, backdate, build
from tests.formats.paimon.reading import Ref, all_refs, refs_of, rows_by_java, rows_by_pypaimon
from tests.formats.paimon.shapes import (
    ADD,
    DELETE,
    commit_of,
    entries_of,
    index_entries_of,
    live_names,
    manifests_of,
    names_of,
)


@pytest.mark.parametrize("name", NAMES)
def test_pypaimon_reads_what_was_written(library: Library, name: str) -> None:
    history = library.original(name)
    assert all_refs(history.location, rows_by_pypaimon) == history.refs


@pytest.mark.parametrize("name", NAMES)
def test_java_reads_what_was_written(library: Library, name: str) -> None:
    history = library.original(name)
    if not history.opens_in_java:
        with pytest.raises(Exception, match="must disabled"):
            java.rows(history.location)
        return
    assert all_refs(history.location, rows_by_java) == history.refs


def test_there_are_enough_of_them_and_their_rows_differ(library: Library) -> None:
    assert len(NAMES) >= 20
    for name in set(NAMES) - {"no_snapshot", "key_postponed", "deleted_tag"}:
        assert len(set(library.original(name).refs.values())) > 1, f"{name}: all refs show the same rows"


@pytest.mark.parametrize("name", sorted(set(NAMES) - WITH_JAVA))
def test_what_pypaimon_writes_alone_needs_no_java(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "_peer", lambda: pytest.fail("Java was asked"))
    build(name, tmp_path)


@pytest.mark.parametrize("name", ["several_tags", "branch_with_commits", "external_paths"])
def test_a_copy_is_a_table_of_its_own(library: Library, tmp_path: Path, name: str) -> None:
    original = library.original(name)
    before = original.files()
    copy = library.copy_of(name, tmp_path)
    java.expire(copy.location, retain_max=1, retain_min=1, time_retained_ms=0)
    assert original.files() == before
    assert len(refs_of(copy.location)) < len(copy.refs)
    assert all(path.is_relative_to(tmp_path) for path in (copy.location, *copy.external))


def test_age_and_commit_times_move_apart(library: Library, tmp_path: Path) -> None:
    history = library.copy_of("branch_from_tag", tmp_path)
    ref = Ref("b1", snapshot=2)
    then = commit_of(history.location, ref)["timeMillis"]
    backdate(history, 24)
    assert commit_of(history.location, ref)["timeMillis"] == then - 24 * 3_600_000
    now = time.time()
    age(history, 24)
    assert now - 24.1 * 3600 < (history.location / "manifest").stat().st_mtime < now - 23.9 * 3600
    assert all_refs(history.location, rows_by_java) == history.refs


# The shapes.


def test_an_overwrite_deletes_and_adds_in_one_delta(library: Library) -> None:
    location = library.original("partition_overwrites").location
    delta = entries_of(location, Ref(snapshot=4))
    assert len(names_of(delta, DELETE)) == 3
    assert len(names_of(delta, ADD)) == 1
    assert commit_of(location, Ref(snapshot=4))["commitKind"] == "OVERWRITE"


def test_a_dropped_partition_is_only_deletes(library: Library) -> None:
    delta = entries_of(library.original("truncated_partitions").location, Ref(snapshot=5))
    assert len(names_of(delta, DELETE)) == 3
    assert not names_of(delta, ADD)


def test_an_upgrade_deletes_and_adds_one_name_in_one_delta(library: Library) -> None:
    location = library.original("key_upgrades").location
    delta = entries_of(location, Ref(snapshot=2))
    (deleted,), (added,) = names_of(delta, DELETE), names_of(delta, ADD)
    assert deleted == added
    assert [(entry["_KIND"], entry["_FILE"]["_LEVEL"]) for entry in delta] == [(DELETE, 0), (ADD, 5)]
    assert commit_of(location, Ref(snapshot=2))["commitKind"] == "COMPACT"
    merged = entries_of(location, Ref(snapshot=5))
    assert len(names_of(merged, DELETE)) == 2
    assert not set(names_of(merged, ADD)) & set(names_of(merged, DELETE))


def test_dynamic_buckets_have_hash_indexes_and_java_drops_them(library: Library) -> None:
    location = library.original("key_dynamic_buckets").location
    before, after = (index_entries_of(location, Ref(snapshot=number)) for number in (5, 6))
    assert {entry["_INDEX_TYPE"] for entry in before} == {"HASH"}
    assert len(before) == 3
    assert len(after) == 2


@pytest.mark.parametrize("name", ["key_deletion_vectors", "append_deletion_vectors", "key_vectors_on_a_branch"])
def test_deletion_vectors_are_index_files(library: Library, name: str) -> None:
    location = library.original(name).location
    entries = [entry for ref in refs_of(location) for entry in index_entries_of(location, ref)]
    assert {entry["_INDEX_TYPE"] for entry in entries} == {"DELETION_VECTORS"}
    assert all((location / "index" / entry["_FILE_NAME"]).exists() for entry in entries)
    assert len({entry["_FILE_NAME"] for entry in entries}) > 1


def test_main_and_branch_share_a_data_file_with_different_vectors(library: Library) -> None:
    location = library.original("key_vectors_on_a_branch").location
    main, branch = Ref(snapshot=6), Ref("b1", snapshot=6)
    assert live_names(location, main) & live_names(location, branch)
    names = [{entry["_FILE_NAME"] for entry in index_entries_of(location, ref)} for ref in (main, branch)]
    assert not names[0] & names[1]


def test_index_files_can_lie_beside_the_data(library: Library) -> None:
    location = library.original("key_index_beside_data").location
    assert len(list(location.glob("dt=*/bucket-*/index-*"))) == 3
    assert not (location / "index").exists()


def test_postponed_files_have_names_of_their_own(library: Library) -> None:
    names = [path.name for path in library.original("key_postponed").location.glob("dt=*/bucket-postpone/*")]
    assert len(names) == 2
    assert all(name.startswith("data--u-") and name.endswith(".avro") for name in names)


@pytest.mark.parametrize("name", ["changelog_input", "changelog_lookup"])
def test_changelog_files_are_named_by_a_list_of_their_own(library: Library, name: str) -> None:
    location = library.original(name).location
    entries = [entry for ref in refs_of(location) for entry in entries_of(location, ref, ("changelog",))]
    names = names_of(entries, ADD)
    assert len(names) == len(entries) >= 3
    assert all(any(location.glob(f"dt=a/bucket-0/{one}")) and one.startswith("changelog-") for one in names)


def test_a_changelog_tells_what_a_commit_changed(library: Library) -> None:
    location = library.original("changelog_input").location
    assert java.changes(location, 2) == [("-U", "a", 1, "v1"), ("+U", "a", 1, "new")]
    assert java.changes(location, 3) == [("-D", "a", 2, "v2")]


def test_decoupled_changelogs_outlive_their_snapshots(library: Library) -> None:
    location = library.original("decoupled_changelog").location
    assert [ref.snapshot for ref in refs_of(location)] == [5, 6, 7]
    names = {path.name for path in (location / "changelog").glob("changelog-*")}
    assert names == {f"changelog-{number}" for number in range(1, 5)}
    assert java.changes(location, 3) == [("-U", "a", 1, "v1"), ("+U", "a", 1, "new")]


def test_decoupled_deltas_keep_what_they_added(library: Library) -> None:
    history = library.original("decoupled_deltas")
    assert [ref.snapshot for ref in refs_of(history.location)] == [4, 5]
    assert len(java.changes(history.location, 1)) == 5, "the files of snapshot 1 were overwritten in snapshot 4"


def test_statistics_are_files_of_an_analyze_snapshot(library: Library) -> None:
    location = library.original("statistics").location
    commits = [commit_of(location, Ref(snapshot=number)) for number in (3, 5)]
    assert [commit["commitKind"] for commit in commits] == ["ANALYZE", "ANALYZE"]
    assert {commit["statistics"] for commit in commits} == {path.name for path in (location / "statistics").iterdir()}
    assert len({commit["statistics"] for commit in commits}) == 2


def test_a_file_index_is_an_extra_file(library: Library) -> None:
    location = library.original("file_index").location
    for entry in entries_of(location, Ref(snapshot=2)):
        (extra,) = entry["_FILE"]["_EXTRA_FILES"]
        assert extra == f"{entry['_FILE']['_FILE_NAME']}.index"
        assert (location / "dt=2024-01-02" / "bucket-0" / extra).exists()


def test_external_files_lie_outside(library: Library) -> None:
    history = library.original("external_paths")
    paths = [
        entry["_FILE"]["_EXTERNAL_PATH"] for entry in entries_of(history.location, Ref(snapshot=4), ("base", "delta"))
    ]
    assert {Path(path.removeprefix("file:").replace("//", "/")).parents[2] for path in paths} == set(history.external)
    assert not list(history.location.rglob("*.parquet"))


def test_data_can_have_a_directory_of_its_own(library: Library) -> None:
    location = library.original("data_directory").location
    assert {path.relative_to(location).parts[0] for path in location.rglob("*.parquet")} == {"data"}


def test_merged_manifests_forget_what_was_deleted(library: Library) -> None:
    location = library.original("merged_manifests").location
    last = Ref(snapshot=10)
    assert len(manifests_of(location, last)) <= 2
    assert not set(manifests_of(location, Ref(snapshot=1))) & set(manifests_of(location, last))
    assert len(names_of(entries_of(location, last, ("base", "delta")), ADD)) < 10


def test_a_rollback_lets_ids_be_used_again(library: Library) -> None:
    for name in ("rolled_back", "rolled_back_by_java"):
        history = library.original(name)
        assert [ref.snapshot for ref in history.refs if ref.tag is None] == list(range(1, len(history.refs) + 1))
        # The rows of the forgotten third snapshot, and the files that held them.
        assert ("2024-01-03", 300, "v300") not in history.refs[Ref(snapshot=3)]
        assert len([path for path in history.leftovers if path.endswith(".parquet")]) == 2
        assert history.leftovers <= history.files()


def test_a_compaction_of_appends_leaves_one_file(library: Library) -> None:
    delta = entries_of(library.original("append_compaction").location, Ref(snapshot=4))
    assert len(names_of(delta, DELETE)) == 3
    assert len(names_of(delta, ADD)) == 1


def test_the_ids_have_a_gap(library: Library) -> None:
    assert [ref.snapshot for ref in refs_of(library.original("snapshot_gap").location)] == [1, 2, 4, 5, 6]


def test_main_and_branch_have_different_snapshots_of_one_id(library: Library) -> None:
    history = library.original("branch_with_commits")
    assert history.refs[Ref(snapshot=3)] != history.refs[Ref("b1", snapshot=3)]
    assert Ref("b1", tag="on_branch") in history.refs


def test_partition_directories_are_escaped(library: Library) -> None:
    names = {path.name for path in library.original("odd_partition_values").location.glob("dt=*")}
    assert {"dt=a%3Ab", "dt=k%3Dv", "dt=50%25", "dt=%253A", "dt=a b", "dt=søren%2Fünï", "dt=日本"} <= names
    assert "dt=__DEFAULT_PARTITION__" in names
    days = {path.name for path in library.original("date_partitions").location.glob("day=*")}
    assert days == {"day=19723", "day=19724", "day=19725"}
    hours = {path.name for path in library.original("timestamp_partitions").location.glob("at=*")}
    assert "at=2024-01-01T01%3A30" in hours


def test_snapshots_have_two_schemas(library: Library) -> None:
    history = library.original("new_schema")
    assert [len(history.refs[Ref(snapshot=number)][0]) for number in (1, 2)] == [3, 4]
