"""What Paimon's own Java does to the histories: the peer that ours is measured by, and where it loses data."""

from __future__ import annotations

from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError

from tests.formats.paimon import java
from tests.formats.paimon.histories import NAMES, History, Library, age, backdate, plant
from tests.formats.paimon.reading import Ref, all_refs, refs_of, rows_by_java
from tests.formats.paimon.shapes import DELETE, entries_of, live_names, names_of

OPEN = tuple(name for name in NAMES if name != "append_deletion_vectors")

LOST = {
    "branch_without_its_tag": {Ref("b1", snapshot=2), Ref("b1", tag="second")},
    "key_vectors_on_a_branch": {Ref("b1", snapshot=4), Ref("b1", snapshot=5), Ref("b1", tag="fourth")},
    "fast_forwarded": {Ref("b1", snapshot=3)},
}
"""What a branch can no longer read after Java expired main's snapshots: apache/paimon#6272."""


def expire_all(history: History) -> int:
    return java.expire(history.location, retain_max=1, retain_min=1, time_retained_ms=0)


def left(history: History) -> set[Path]:
    return {history.location / name for name in history.leftovers}


@pytest.mark.parametrize("name", OPEN)
def test_orphan_cleanup_finds_exactly_what_was_planted(library: Library, tmp_path: Path, name: str) -> None:
    history = library.copy_of(name, tmp_path)
    age(history)
    planted = plant(history) | left(history)
    found = java.orphans(history.location, dry_run=True)
    assert set(found.paths) == planted
    assert found.count == len(planted)
    assert all(path.exists() for path in planted)
    assert java.orphans(history.location, dry_run=False).count == len(planted)
    assert not any(path.exists() for path in planted)
    assert all_refs(history.location, rows_by_java) == history.refs


def test_orphan_cleanup_leaves_what_is_young(library: Library, tmp_path: Path) -> None:
    history = library.copy_of("partition_overwrites", tmp_path)
    plant(history, hours=-1)
    assert java.orphans(history.location).count == 0


@pytest.mark.parametrize("name", sorted(set(OPEN) - set(LOST)))
def test_expiry_keeps_every_ref_and_leaves_nothing_behind(library: Library, tmp_path: Path, name: str) -> None:
    history = library.copy_of(name, tmp_path)
    expired = expire_all(history)
    kept = refs_of(history.location)
    assert expired == len(history.refs) - len(kept)
    assert all_refs(history.location, rows_by_java) == {ref: history.refs[ref] for ref in kept}
    age(history)
    assert set(java.orphans(history.location).paths) == left(history)


@pytest.mark.parametrize("name", sorted(LOST))
def test_expiry_of_main_destroys_a_branch(library: Library, tmp_path: Path, name: str) -> None:
    history = library.copy_of(name, tmp_path)
    expire_all(history)
    for ref in refs_of(history.location):
        if ref in LOST[name]:
            with pytest.raises(Py4JJavaError, match=r"FileNotFoundException"):
                rows_by_java(history.location, ref)
        else:
            assert rows_by_java(history.location, ref) == history.refs[ref]


def test_expiry_removes_the_files_that_deltas_deleted(library: Library, tmp_path: Path) -> None:
    history = library.copy_of("partition_overwrites", tmp_path)
    before = history.files()
    gone = {name for n in range(2, 7) for name in names_of(entries_of(history.location, Ref(snapshot=n)), DELETE)}
    assert len(gone) == 5
    assert expire_all(history) == 5
    removed = {Path(path).name for path in before - history.files()}
    assert {name for name in removed if name.endswith(".parquet")} == gone
    assert {name for name in removed if name.startswith("snapshot-")} == {f"snapshot-{n}" for n in range(1, 6)}
    # Each snapshot but the last has two lists of its own; the last one still names every manifest.
    assert len([name for name in removed if name.startswith("manifest-list-")]) == 10
    assert (history.location / "snapshot" / "EARLIEST").read_text() == "6"


def test_expiry_keeps_a_file_that_was_lifted(library: Library, tmp_path: Path) -> None:
    history = library.copy_of("key_upgrades", tmp_path)
    (lifted,) = names_of(entries_of(history.location, Ref(snapshot=2)), DELETE)
    expire_all(history)
    assert (history.location / "dt=a" / "bucket-0" / lifted).exists()


def test_expiry_keeps_what_a_tag_holds(library: Library, tmp_path: Path) -> None:
    history = library.copy_of("several_tags", tmp_path)
    held = live_names(history.location, Ref(tag="first")) | live_names(history.location, Ref(tag="third"))
    expire_all(history)
    assert held <= {Path(path).name for path in history.files()}


def test_expiry_stops_at_the_slowest_consumer(library: Library, tmp_path: Path) -> None:
    history = library.copy_of("consumers", tmp_path)
    assert expire_all(history) == 2
    assert [ref.snapshot for ref in refs_of(history.location)] == [3, 4, 5]


def test_expiry_obeys_each_of_its_limits(library: Library, tmp_path: Path) -> None:
    def copy(name: str) -> History:
        return library.copy_of("plain_appends", tmp_path / name)

    assert java.expire(copy("limit").location, retain_max=1, retain_min=1, time_retained_ms=0, max_deletes=2) == 2
    assert java.expire(copy("max").location, retain_max=4, retain_min=1) == 2, "above the maximum, whatever the age"
    assert java.expire(copy("young").location, retain_min=1) == 0, "an hour is retained by default"
    assert java.expire(copy("default").location, time_retained_ms=0) == 0, "ten are retained by default"
    old = copy("old")
    backdate(old, 2)
    assert java.expire(old.location, retain_min=2) == 4


def test_expiry_does_nothing_when_the_range_ends_in_a_gap(library: Library, tmp_path: Path) -> None:
    history = library.copy_of("snapshot_gap", tmp_path)
    before = history.files()
    assert java.expire(history.location, retain_max=4, retain_min=4, time_retained_ms=0) == 0
    assert before - history.files() == set()


def test_expiry_of_a_branch_ends_at_its_own_snapshots(library: Library, tmp_path: Path) -> None:
    history = library.copy_of("branch_with_commits", tmp_path)
    assert java.expire(history.location, retain_max=1, retain_min=1, time_retained_ms=0, branch="b1") == 2
    assert [ref.snapshot for ref in refs_of(history.location) if ref.branch == "b1" and ref.tag is None] == [4]
    assert [ref.snapshot for ref in refs_of(history.location) if ref.branch == "main" and ref.tag is None] == [1, 2, 3]


def test_expiry_of_changelogs_is_apart(library: Library, tmp_path: Path) -> None:
    history = library.copy_of("decoupled_changelog", tmp_path)
    options = {"changelog.num-retained.min": "1", "changelog.num-retained.max": "4", "changelog.time-retained": "0 ms"}
    assert java.expire_changelogs(history.location, options) > 0
    assert not (history.location / "changelog" / "changelog-1").exists()
    assert all_refs(history.location, rows_by_java) == history.refs


def test_deleting_a_tag_removes_what_it_alone_held(library: Library, tmp_path: Path) -> None:
    history = library.copy_of("tags_without_snapshots", tmp_path)
    before = history.files()
    java.delete_tag(history.location, "second")
    gone = before - history.files()
    assert "tag/tag-second" in gone
    assert any(path.endswith(".parquet") for path in gone)


def test_partition_expiry_reads_the_time_from_the_value(library: Library, tmp_path: Path) -> None:
    options = {"partition.expiration-time": "1 d", "partition.timestamp-formatter": "yyyy-MM-dd"}
    texts = library.copy_of("partitioned_appends", tmp_path)
    dropped = java.expire_partitions(texts.location, options)
    assert dropped == [{"dt": f"2024-01-0{day}"} for day in range(1, 6)]
    assert java.rows(texts.location) == []
    # A DATE is the number of its day to Java, which no formatter reads.
    dates = library.copy_of("date_partitions", tmp_path)
    assert java.expire_partitions(dates.location, options) == []


def test_java_makes_refs_of_its_own(library: Library, tmp_path: Path) -> None:
    history = library.copy_of("partitioned_appends", tmp_path)
    java.create_tag(history.location, "two", 2)
    java.create_branch(history.location, "b", "two")
    java.write(history.location, [("2024-02-01", 1, "x")], branch="b")
    assert rows_by_java(history.location, Ref(tag="two")) == history.refs[Ref(snapshot=2)]
    assert set(rows_by_java(history.location, Ref("b", snapshot=3))) - set(history.refs[Ref(snapshot=2)]) == {
        ("2024-02-01", 1, "x")
    }
