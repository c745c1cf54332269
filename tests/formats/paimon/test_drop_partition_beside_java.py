"""Dropping and judging partitions beside Paimon's own Java: on equal tables both leave the same."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkContext

from lakewarden.formats.paimon.metadata.read import read_table
from lakewarden.formats.paimon.partitions.choice import PartitionFiles, expirable_partitions
from lakewarden.formats.paimon.partitions.values import DEFAULT_NAME, decode, partition_columns, spelled
from lakewarden.model.errors import PlanOutdatedError
from lakewarden.model.partition_times import compile_formatter, parse_default
from lakewarden.storage.stores import Stores
from tests.formats.paimon import java
from tests.formats.paimon.dropping import drop, records, snapshots
from tests.formats.paimon.histories import NAMES, Library
from tests.formats.paimon.reading import Ref, all_refs, open_table, rows_by_java, rows_by_pypaimon
from tests.formats.paimon.story import Story
from tests.formats.paimon.test_partition_values import WITH_FORMATTER, WITHOUT_FORMATTER
from tests.support.policies import partition_policy


def partitions_of(location: Path) -> list[PartitionFiles]:
    """Every partition of the latest snapshot, over added and deleted entries."""
    latest = snapshots(location)[-1]
    files: dict[bytes, int] = {}
    newest: dict[bytes, int] = {}
    for key in ("baseManifestList", "deltaManifestList"):
        for row in records(location, latest[key]):
            for entry in records(location, row["_FILE_NAME"]):
                partition = entry["_PARTITION"]
                files[partition] = files.get(partition, 0) + (1 if entry["_KIND"] == 0 else -1)
                made = int(entry["_FILE"]["_CREATION_TIME"].timestamp() * 1000)
                newest[partition] = max(newest.get(partition, 0), made)
    return [PartitionFiles(partition, count, newest[partition]) for partition, count in files.items()]


def live(location: Path) -> dict[tuple[Any, ...], int]:
    """The live entries of the latest snapshot, and the index entries, by what tells one from another."""
    latest, found = snapshots(location)[-1], {}
    for key in ("baseManifestList", "deltaManifestList"):
        for row in records(location, latest[key]):
            for entry in records(location, row["_FILE_NAME"]):
                file = entry["_FILE"]
                identity = (entry["_PARTITION"], entry["_BUCKET"], file["_LEVEL"], file["_FILE_NAME"])
                found[identity] = found.get(identity, 0) + (1 if entry["_KIND"] == 0 else -1)
    for entry in records(location, latest["indexManifest"]) if "indexManifest" in latest else ():
        found[entry["_PARTITION"], entry["_BUCKET"], entry["_INDEX_TYPE"], entry["_FILE_NAME"]] = 1
    return {identity: count for identity, count in found.items() if count}


def test_rows_that_a_record_deletes_are_not_left(spark: object, tmp_path: Path) -> None:
    """Of a primary key, a deletion is a record in a file of its own, and the row's file stays until it is compacted."""
    options = {"bucket": "1", "write-only": "true"}
    story = Story.begin(tmp_path, "t", partition_keys=["dt"], primary_keys=["dt", "id"], options=options)
    story.write_by_java([(day, number, "x") for day in ("a", "b") for number in range(3)])
    story.write_by_java([("b", number, "x") for number in range(2)], kinds=["-D", "-D"])
    assert drop(story.location, ("a",)) is not None
    story.write_by_java([("a", 1, "x")])
    story.write_by_java([("b", 2, "x")], kinds=["-D"])
    with pytest.raises(PlanOutdatedError, match="no row would be left"):
        drop(story.location, ("a",), identifier=2)
    latest = Ref(snapshot=snapshots(story.location)[-1]["id"])
    assert [row[0] for row in rows_by_java(story.location, latest)] == ["a"]


@pytest.mark.parametrize("name", sorted(set(NAMES) - {"no_snapshot"}))
def test_a_dropped_partition_is_what_java_makes_of_it(library: Library, name: str, tmp_path: Path) -> None:
    ours, theirs = (library.copy_of(name, tmp_path / who) for who in ("ours", "theirs"))
    if not ours.opens_in_java:
        pytest.skip("Java does not open this table")
    keys = open_table(ours.location).partition_keys
    if not keys:
        pytest.skip("no partitions")
    table = read_table(f"file://{ours.location}/", Stores())
    some = [row.partition for row in partitions_of(ours.location) if row.files > 0]
    if not some:
        pytest.skip("nothing is left in this table")
    values = decode(min(some), partition_columns(table.main.schema))
    spec = {k: DEFAULT_NAME if v is None else spelled(v) for k, v in zip(keys, values, strict=True)}
    before = len(snapshots(ours.location))

    found = drop(ours.location, min(some), may_empty=True)
    java.truncate_partitions(theirs.location, [spec])

    assert found is not None
    mine, other = snapshots(ours.location)[-1], snapshots(theirs.location)[-1]
    assert len(snapshots(ours.location)) == before + 1
    for key in ("id", "schemaId", "commitKind", "totalRecordCount", "deltaRecordCount", "watermark", "statistics"):
        assert mine.get(key) == other.get(key), key
    if not ours.external:
        assert live(ours.location) == live(theirs.location)
    for reader in (rows_by_java, rows_by_pypaimon):
        shown = all_refs(ours.location, reader)
        assert shown[Ref(snapshot=mine["id"])] == all_refs(theirs.location, reader)[Ref(snapshot=other["id"])]
        assert shown.items() >= ours.refs.items()
    assert java.orphans(ours.location).count == java.orphans(theirs.location).count


@pytest.mark.parametrize("name", ["key_upgrades", "key_deletion_vectors", "key_dynamic_buckets"])
def test_java_writes_on_after_it(library: Library, name: str, tmp_path: Path) -> None:
    ours, theirs = (library.copy_of(name, tmp_path / who) for who in ("ours", "theirs"))
    (dropped,) = [p.partition for p in partitions_of(ours.location) if p.files > 0 and b"a" in p.partition]
    drop(ours.location, dropped, may_empty=True)
    java.truncate_partitions(theirs.location, [{"dt": "a"}])
    bucket = 0 if name == "key_dynamic_buckets" else -1
    for table in (ours, theirs):
        java.write(table.location, [("a", 1, "again"), ("a", 77, "v77")], bucket=bucket, compact=True)
        java.write(table.location, [("a", 77, "x")], kinds=["-D"], bucket=bucket, compact=True)
    assert java.rows(ours.location) == java.rows(theirs.location)
    assert [row for row in java.rows(ours.location) if row[0] == "a"] == [("a", 1, "again")]


def test_java_expires_what_we_dropped(library: Library, tmp_path: Path) -> None:
    ours, theirs = (library.copy_of("key_upgrades", tmp_path / who) for who in ("ours", "theirs"))
    (dropped,) = [p.partition for p in partitions_of(ours.location) if p.files > 0 and b"a" in p.partition]
    drop(ours.location, dropped, may_empty=True)
    java.truncate_partitions(theirs.location, [{"dt": "a"}])
    for table in (ours, theirs):
        java.expire(table.location, retain_max=1, retain_min=1, time_retained_ms=0)
    data = [{path for path in table.files() if "bucket-" in path} for table in (ours, theirs)]
    assert data[0] == data[1]
    assert java.orphans(ours.location).count == 0


BY_VALUES = {"partition.expiration-time": "1 d"}
BY_CHANGE = {"partition.expiration-time": "1 ms", "partition.expiration-strategy": "update-time"}


@pytest.mark.parametrize(
    ("options", "count"),
    [
        (BY_VALUES, 3),
        ({**BY_VALUES, "partition.timestamp-formatter": "yyyyMMdd"}, 1),
        ({**BY_VALUES, "partition.expiration-max-num": "2"}, 2),
        (BY_CHANGE, 6),
        ({**BY_CHANGE, "partition.expiration-time": "1 d"}, 0),
    ],
)
def test_the_same_partitions_expire(spark: Any, tmp_path: Path, options: dict[str, str], count: int) -> None:
    values = ["2023-01-31", "2023-2-30", "2023-03-01 10:00:00", "2099-01-01", "never", "20230101"]
    story = Story.begin(tmp_path, "t", partition_keys=["dt"], options={"bucket": "-1"})
    story.append([(value, 1, "x") for value in values])
    if options is not BY_CHANGE:
        story.append([(None, 1, "x")])  # Java cannot name this one when it would have to drop it
    schema = read_table(f"file://{story.location}/", Stores()).main.schema
    chosen = replace(schema, options={**schema.options, **options})
    zone = spark._jvm.java.util.TimeZone.getDefault().getID()
    policy = partition_policy(time_zone=zone)
    found = expirable_partitions(chosen, policy, partitions_of(story.location), datetime.now(UTC))
    expected = java.expire_partitions(story.location, options)
    assert [p.label.removeprefix("dt=") for p in found.expired] == [one["dt"] for one in expected]
    assert len(expected) == count


def test_times_are_what_java_reads(spark: object) -> None:
    """Java's own extractor, over the table of forms and over many strings close to them."""
    gateway = SparkContext._gateway
    assert gateway is not None
    extractor = gateway.jvm.org.apache.paimon.partition.PartitionTimeExtractor

    def by_java(formatter: str | None, text: str) -> datetime | None:
        keys, values = gateway.jvm.java.util.ArrayList(), gateway.jvm.java.util.ArrayList()
        keys.add("dt")
        values.add(text)
        try:
            found = str(extractor(None, formatter).extract(keys, values))
        except Exception as error:
            if "could not be parsed" not in str(error):
                raise
            return None
        if found.startswith(("-", "+", "0000")):
            return None  # a year that Python has no name for: ours keeps the partition
        whole, _, fraction = found.partition(".")
        moment = datetime.fromisoformat(whole)
        return moment.replace(microsecond=-(-int(fraction.ljust(9, "0")) // 1000) if fraction else 0)

    rng = random.Random(4)

    def near(text: str) -> list[str]:
        """The text, and some with one character changed, added or taken away."""
        made = [text]
        for _ in range(12):
            at = rng.randrange(len(text) + 1)
            made.append(text[:at] + rng.choice("0123456789-: .T") + text[at + rng.randrange(2) :])
            made.append(text[:at] + text[at + 1 :])
        return made

    wrong = [
        (text, by_java(None, text), parse_default(text))
        for form, _ in WITHOUT_FORMATTER
        for text in near(form)
        if not text.startswith(("+", "-")) and "--" not in text and by_java(None, text) != parse_default(text)
    ]
    assert wrong == []
    wrong_forms = []
    for pattern, form, _ in WITH_FORMATTER:
        parse = compile_formatter(pattern)
        for text in near(form):
            expected = by_java(pattern, text)
            if parse(text) != expected:
                wrong_forms.append((pattern, text, expected, parse(text)))
    # Midnight as 24:00, and signs: there ours keeps the partition. Never is a time another one.
    assert [one for one in wrong_forms if one[3] is not None] == []
    assert len(wrong_forms) < 20, wrong_forms
