"""Dropping partitions of real tables: what is left to read, what the commit says, and what is refused."""

from __future__ import annotations

import json
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakewarden.formats.avro import AvroFile, read_avro, write_avro
from lakewarden.formats.paimon.manifests.files import merged
from lakewarden.model.errors import IncompleteManifestError, UnreadableMetadataError, UnsupportedTableError
from tests.formats.paimon.dropping import drop, partition, records, rewrite, snapshots
from tests.formats.paimon.reading import Ref, all_refs, rows_by_pypaimon
from tests.formats.paimon.story import Story, files_of

DAYS = ("2024-01-01", "2024-01-02", "2024-01-03")


@pytest.fixture
def story(tmp_path: Path) -> Story:
    """Three days, the first written twice."""
    story = Story.begin(tmp_path, "t", partition_keys=["dt"], options={"bucket": "-1"})
    for number, day in enumerate((*DAYS, DAYS[0])):
        story.append([(day, number, "x"), (day, number + 10, "y")])
    return story


def latest(location: Path) -> tuple[Any, ...]:
    return rows_by_pypaimon(location, Ref(snapshot=snapshots(location)[-1]["id"]))


def test_only_the_partition_goes_and_history_stays(story: Story) -> None:
    before = files_of(story.location)
    found = drop(story.location, (DAYS[0],), properties={"lakewarden.job": "partition-expiry"})
    assert found is not None
    assert (found.snapshot_id, found.files, found.records) == (5, 2, 4)
    assert latest(story.location) == tuple(row for row in story.states[Ref(snapshot=4)] if row[0] != DAYS[0])
    assert all_refs(story.location).items() >= story.states.items()
    assert before - {"snapshot/LATEST"} <= set(files_of(story.location))
    assert (story.location / "snapshot/LATEST").read_text() == "5"


def test_the_snapshot_says_what_happened(story: Story) -> None:
    drop(story.location, (DAYS[0],), user="worker-9", identifier=77, properties={"lakewarden.job": "partition-expiry"})
    before, after = snapshots(story.location)[-2:]
    assert (after["commitKind"], after["commitUser"], after["commitIdentifier"]) == ("OVERWRITE", "worker-9", 77)
    assert (after["totalRecordCount"], after["deltaRecordCount"]) == (before["totalRecordCount"] - 4, -4)
    assert after["timeMillis"] >= before["timeMillis"]
    assert (after["version"], after["schemaId"]) == (3, 0)
    said = after["properties"]
    assert (said["lakewarden.job"], said["input.snapshot_ids"], said["input.row_count"]) == (
        "partition-expiry", str(before["id"]), "4",
    )  # fmt: skip
    assert int(said["input.bytes_compressed"]) > 0
    for key in ("base", "delta"):
        size = (story.location / "manifest" / after[f"{key}ManifestList"]).stat().st_size
        assert after[f"{key}ManifestListSize"] == size
    base = records(story.location, after["baseManifestList"])
    names = [
        record["_FILE_NAME"]
        for key in ("base", "delta")
        for record in records(story.location, before[f"{key}ManifestList"])
    ]
    assert [record["_FILE_NAME"] for record in base] == names
    (delta,) = records(story.location, after["deltaManifestList"])
    assert (delta["_NUM_ADDED_FILES"], delta["_NUM_DELETED_FILES"]) == (0, 2)
    assert delta["_PARTITION_STATS"]["_MIN_VALUES"] == partition(story.location, DAYS[0])
    assert delta["_FILE_SIZE"] == (story.location / "manifest" / delta["_FILE_NAME"]).stat().st_size
    entries = records(story.location, delta["_FILE_NAME"])
    assert {entry["_KIND"] for entry in entries} == {1}
    # But for its kind, an entry is what it was when the file was added.
    added = [
        e
        for row in base
        for e in records(story.location, row["_FILE_NAME"])
        if e["_PARTITION"] == entries[0]["_PARTITION"]
    ]
    assert sorted(map(repr, added)) == sorted(repr({**entry, "_KIND": 0}) for entry in entries)


def test_writers_go_on_after_it(story: Story) -> None:
    drop(story.location, (DAYS[0],), (DAYS[1],))
    story.append([(DAYS[0], 99, "again")])
    assert latest(story.location) == ((DAYS[0], 99, "again"), (DAYS[2], 12, "y"), (DAYS[2], 2, "x"))
    assert drop(story.location, (DAYS[0],), identifier=2) is not None
    assert {row[0] for row in latest(story.location)} == {DAYS[2]}


def test_what_is_gone_already_makes_no_commit(story: Story, tmp_path: Path) -> None:
    assert drop(story.location, ("1999-01-01",)) is None
    assert drop(story.location) is None
    story.truncate({"dt": DAYS[1]})
    count = len(snapshots(story.location))
    assert drop(story.location, (DAYS[1],)) is None
    assert len(snapshots(story.location)) == count
    empty = Story.begin(tmp_path, "empty", partition_keys=["dt"])
    assert drop(empty.location, (DAYS[1],)) is None


def test_the_same_call_again_finds_its_own_commit(story: Story) -> None:
    first = drop(story.location, (DAYS[0],), identifier=3)
    story.append([(DAYS[0], 99, "again")])
    assert drop(story.location, (DAYS[0],), identifier=3) == first
    assert len(snapshots(story.location)) == 6
    assert drop(story.location, (DAYS[0],), identifier=3, user="another") is not None


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.int32(), (1, 2)),
        (pa.int64(), (2**40, -5)),
        (pa.date32(), (date(2024, 1, 1), date(2024, 1, 2))),
        (pa.timestamp("us"), (datetime(2024, 1, 1, 5, 30), datetime(2024, 1, 2))),
        (pa.bool_(), (True, False)),
        (pa.string(), ("a=b/c%d:e ü", "a")),
        (pa.string(), (None, "x")),
    ],
)
def test_partitions_of_every_sort(tmp_path: Path, kind: pa.DataType, values: tuple[Any, Any]) -> None:
    columns = pa.schema([("p", kind), ("id", pa.int32())])
    story = Story.begin(tmp_path, "t", columns=columns, partition_keys=["p"], options={"bucket": "-1"})
    story.append([(values[0], 1), (values[1], 2)])
    assert drop(story.location, (values[0],)) is not None
    assert [row[1] for row in latest(story.location)] == [2]
    (row,) = records(story.location, snapshots(story.location)[-1]["deltaManifestList"])
    assert row["_PARTITION_STATS"]["_NULL_COUNTS"] == [1 if values[0] is None else 0]


def test_partitions_of_two_columns(tmp_path: Path) -> None:
    columns = pa.schema([("dt", pa.string()), ("hr", pa.int32()), ("id", pa.int32())])
    story = Story.begin(tmp_path, "t", columns=columns, partition_keys=["dt", "hr"], options={"bucket": "-1"})
    story.append([("a", 1, 1), ("a", 2, 2), ("b", 1, 3), ("b", 2, 4)])
    drop(story.location, ("a", 2), ("b", 1))
    assert [row[2] for row in latest(story.location)] == [1, 4]
    assert len(records(story.location, snapshots(story.location)[-1]["deltaManifestList"])) == 2


def test_the_hash_index_of_a_primary_key_goes_with_its_partition(tmp_path: Path) -> None:
    """pypaimon's own truncate leaves it; a writer would then look for its keys in buckets that are gone."""
    story = Story.begin(tmp_path, "t", partition_keys=["dt"], primary_keys=["dt", "id"], options={"bucket": "-1"})
    story.append([(day, number, "x") for day in DAYS for number in range(3)])
    index = records(story.location, snapshots(story.location)[-1]["indexManifest"])
    assert {entry["_INDEX_TYPE"] for entry in index} == {"HASH"}
    drop(story.location, (DAYS[0],))
    after = records(story.location, snapshots(story.location)[-1]["indexManifest"])
    assert after == [entry for entry in index if entry["_PARTITION"] != partition(story.location, DAYS[0])]
    story.append([(DAYS[0], 7, "again"), (DAYS[1], 1, "changed")])
    shown = latest(story.location)
    assert [row for row in shown if row[0] == DAYS[0]] == [(DAYS[0], 7, "again")]
    assert (DAYS[1], 1, "changed") in shown
    drop(story.location, *((day,) for day in DAYS), identifier=2, may_empty=True)
    assert "indexManifest" not in snapshots(story.location)[-1]
    assert latest(story.location) == ()


def test_row_ids_go_on_where_they_were(tmp_path: Path) -> None:
    options = {"bucket": "-1", "row-tracking.enabled": "true"}
    story = Story.begin(tmp_path, "t", partition_keys=["dt"], options=options)
    story.append([(DAYS[0], 1, "x"), (DAYS[0], 2, "x")])
    story.append([(DAYS[1], 1, "x")])
    drop(story.location, (DAYS[0],))
    after = snapshots(story.location)[-1]
    assert after["nextRowId"] == 3
    (row,) = records(story.location, after["deltaManifestList"])
    assert (row["_MIN_ROW_ID"], row["_MAX_ROW_ID"]) == (0, 1)
    story.append([(DAYS[2], 5, "x")])
    assert snapshots(story.location)[-1]["nextRowId"] == 4
    assert {row[0] for row in latest(story.location)} == {DAYS[1], DAYS[2]}


def change_latest(location: Path, **fields: Any) -> None:
    path = location / "snapshot" / f"snapshot-{snapshots(location)[-1]['id']}"
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))


def test_what_belongs_to_the_table_is_carried_over(story: Story) -> None:
    carried = {"sequence.generation.max-sequence-number": "41"}
    (story.location / "statistics").mkdir()
    (story.location / "statistics" / "stat-1").write_text('{"snapshotId": 4, "schemaId": 0}')
    future = snapshots(story.location)[-1]["timeMillis"] + 10**9
    change_latest(
        story.location, watermark=5, statistics="stat-1", properties={**carried, "of": "a commit"}, timeMillis=future
    )
    drop(story.location, (DAYS[0],))
    after = snapshots(story.location)[-1]
    assert (after["watermark"], after["statistics"], after["properties"]) == (5, "stat-1", carried)
    assert after["timeMillis"] == future


@pytest.mark.parametrize("text", ['{"snapshotId": 4, "schemaId": 9}', "garbage", None])
def test_statistics_about_other_columns_are_not_carried_over(story: Story, text: str | None) -> None:
    if text is not None:
        (story.location / "statistics").mkdir()
        (story.location / "statistics" / "stat-1").write_text(text)
    change_latest(story.location, statistics="stat-1")
    drop(story.location, (DAYS[0],))
    assert "statistics" not in snapshots(story.location)[-1]


# -- what is refused


def test_an_index_over_several_partitions_is_refused_by_name(tmp_path: Path) -> None:
    story = Story.begin(tmp_path, "t", partition_keys=["dt"], primary_keys=["dt", "id"], options={"bucket": "-1"})
    story.append([(DAYS[0], 1, "x"), (DAYS[1], 1, "x")])
    name = snapshots(story.location)[-1]["indexManifest"]
    rewrite(story.location, name, lambda found: ({**entry, "_INDEX_TYPE": "BTREE"} for entry in found))
    with pytest.raises(UnsupportedTableError, match="BTREE"):
        drop(story.location, (DAYS[0],))
    assert len(snapshots(story.location)) == 1


@pytest.mark.parametrize("option", ["metastore.partitioned-table", "chain-table.enabled"])
def test_a_table_that_needs_more_than_a_commit_is_refused(story: Story, option: str) -> None:
    path = story.location / "schema" / "schema-0"
    schema = json.loads(path.read_text())
    schema["options"][option] = "true"
    path.write_text(json.dumps(schema))
    with pytest.raises(UnsupportedTableError):
        drop(story.location, (DAYS[0],))
    assert len(snapshots(story.location)) == 4


@pytest.mark.parametrize("which", ["baseManifestList", "deltaManifestList", "manifest"])
@pytest.mark.parametrize("damage", ["cut", "gone", "longer", "a row less"])
def test_a_damaged_manifest_is_never_taken_for_a_shorter_one(story: Story, which: str, damage: str) -> None:
    name = snapshots(story.location)[-1][which if which != "manifest" else "baseManifestList"]
    if which == "manifest":
        name = records(story.location, name)[0]["_FILE_NAME"]
    path = story.location / "manifest" / name
    data = path.read_bytes()
    if damage == "gone":
        path.unlink()
    elif damage == "a row less":
        rewrite(story.location, name, lambda found: found[1:])
    else:
        path.write_bytes(data[:-20] if damage == "cut" else data + b"\0")
    with pytest.raises(IncompleteManifestError, match=name):
        drop(story.location, (DAYS[0],))
    assert len(snapshots(story.location)) == 4


def test_manifests_that_contradict_each_other_are_refused(story: Story) -> None:
    """The same file twice: one DELETE would leave one of them, for ever."""
    after = snapshots(story.location)[-1]
    rewrite(story.location, after["baseManifestList"], lambda found: [*found, found[0]])
    size = (story.location / "manifest" / after["baseManifestList"]).stat().st_size
    change_latest(story.location, baseManifestListSize=size)
    with pytest.raises(UnreadableMetadataError, match="times more often"):
        drop(story.location, (DAYS[0],))


def test_files_that_wait_for_their_bucket_stay_unless_the_table_is_made_of_them(story: Story) -> None:
    def wait(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [{**entry, "_BUCKET": -2} for entry in found]

    row = records(story.location, snapshots(story.location)[-1]["deltaManifestList"])[0]
    rewrite(story.location, row["_FILE_NAME"], wait)
    size = (story.location / "manifest" / row["_FILE_NAME"]).stat().st_size
    name = snapshots(story.location)[-1]["deltaManifestList"]
    rewrite(story.location, name, lambda found: [{**one, "_FILE_SIZE": size} for one in found])
    change_latest(story.location, deltaManifestListSize=(story.location / "manifest" / name).stat().st_size)
    found = drop(story.location, (DAYS[0],))
    assert found is not None
    assert found.files == 1
    path = story.location / "schema" / "schema-0"
    schema = json.loads(path.read_text())
    schema["options"]["bucket"] = "-2"
    path.write_text(json.dumps(schema))
    found = drop(story.location, (DAYS[0],), identifier=2)
    assert found is not None
    assert found.files == 1


# -- records move without losing what this version does not know

OLD: dict[str, Any] = {"type": "record", "name": "r", "fields": [{"name": "_FILE_NAME", "type": "string"}]}
NEW = {
    **OLD,
    "fields": [*OLD["fields"], {"name": "_NEWS", "type": ["null", "string"], "default": None}],
}
OTHER = {**OLD, "fields": [*OLD["fields"], {"name": "_ELSE", "type": ["null", "long"], "default": None}]}
STRICT = {**OLD, "fields": [*OLD["fields"], {"name": "_MUST", "type": "string"}]}


def file_of(schema: dict[str, Any], *rows: dict[str, Any]) -> Any:
    return read_avro(write_avro(AvroFile(schema, "zstandard", rows)), "a list")


def test_fields_of_newer_writers_survive() -> None:
    old, new = file_of(OLD, {"_FILE_NAME": "a"}), file_of(NEW, {"_FILE_NAME": "b", "_NEWS": "sidecar"})
    for both in (merged(old, new), merged(new, old)):
        again = read_avro(write_avro(both), "a list")
        assert {row["_FILE_NAME"]: row["_NEWS"] for row in again.records} == {"a": None, "b": "sidecar"}
        assert again.codec == "zstandard"
    three = merged(merged(old, new), file_of(OTHER, {"_FILE_NAME": "c", "_ELSE": 3}))
    rows = read_avro(write_avro(three), "a list").records
    assert rows[2] == {"_FILE_NAME": "c", "_NEWS": None, "_ELSE": 3}


def test_a_field_that_nobody_can_fill_in_is_refused() -> None:
    with pytest.raises(UnsupportedTableError, match="_MUST"):
        merged(file_of(OLD, {"_FILE_NAME": "a"}), file_of(STRICT, {"_FILE_NAME": "b", "_MUST": "x"}))
    with pytest.raises(UnsupportedTableError):
        write_avro(AvroFile(STRICT, "null", ({"_FILE_NAME": "a"},)))


@pytest.mark.parametrize("cut", [*range(1, 60, 7), -1, -17])
def test_a_cut_file_is_an_error_wherever_it_is_cut(cut: int) -> None:
    whole = write_avro(AvroFile(NEW, "null", ({"_FILE_NAME": "a" * 50, "_NEWS": None},) * 20))
    with pytest.raises(IncompleteManifestError, match="a list"):
        read_avro(whole[: cut if cut < 0 else len(whole) - cut], "a list")
    with pytest.raises(IncompleteManifestError, match="rows"):
        read_avro(whole, "a list", rows=19)
