"""Histories of append tables: partitions, places, manifests, and files beside the data files."""

from __future__ import annotations

from datetime import date, datetime
from itertools import count
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest
from pypaimon.common import external_path_provider

from tests.formats.paimon.register import by_java, by_pypaimon, day_by_day, some
from tests.formats.paimon.story import History, Story


@by_pypaimon
def no_snapshot(root: Path) -> History:
    return Story.begin(root, "no_snapshot").end("a table nobody has written to")


@by_pypaimon
def plain_appends(root: Path) -> History:
    story = Story.begin(root, "plain_appends")
    for number in range(4):
        story.append(some("x", number * 3))
    # Equal rows stay two.
    story.append(some("x", 9))
    story.append(some("x", 9))
    return story.end("six appends to a table without partitions; some rows twice")


@by_pypaimon
def partitioned_appends(root: Path) -> History:
    story = Story.begin(root, "partitioned_appends", partition_keys=["dt"])
    day_by_day(story, 5)
    return story.end("five appends, each into two partitions")


@by_pypaimon
def partition_overwrites(root: Path) -> History:
    story = Story.begin(root, "partition_overwrites", partition_keys=["dt"])
    day_by_day(story, 3)
    story.overwrite({"dt": "2024-01-01"}, some("2024-01-01", 900))
    story.overwrite({"dt": "2024-01-02"}, some("2024-01-02", 910))
    story.overwrite({"dt": "2024-01-01"}, some("2024-01-01", 920))
    return story.end("partitions replaced, one of them twice: DELETE and ADD entries in one delta")


@by_pypaimon
def truncated_partitions(root: Path) -> History:
    columns = pa.schema([("dt", pa.string()), ("hour", pa.int32()), ("id", pa.int32())])
    story = Story.begin(root, "truncated_partitions", columns=columns, partition_keys=["dt", "hour"])
    for hour in range(3):
        story.append([("a", hour, hour), ("b", hour, hour + 10)])
    story.truncate({"dt": "a", "hour": 1})
    story.truncate({"dt": "b"})
    story.append([("b", 2, 99)])
    return story.end("one partition dropped by all its keys, several by one of two, then one written again")


@by_pypaimon
def odd_partition_values(root: Path) -> History:
    story = Story.begin(root, "odd_partition_values", partition_keys=["dt"])
    values = ("a:b", "k=v", "50%", "%3A", "a b", "søren/ünï", "日本", "#?*[x]{y}^`'\"\\", None)
    for number, value in enumerate(values):
        story.append(some(value, number * 10, 2))
    story.overwrite({"dt": "k=v"}, some("k=v", 900))
    story.truncate({"dt": "日本"})
    return story.end("partition values that are escaped in paths, unicode, a space, and null")


@by_pypaimon
def date_partitions(root: Path) -> History:
    columns = pa.schema([("day", pa.date32()), ("id", pa.int32()), ("v", pa.string())])
    story = Story.begin(root, "date_partitions", columns=columns, partition_keys=["day"])
    for day in (1, 2, 3):
        story.append([(date(2024, 1, day), day * 10 + n, f"v{n}") for n in range(2)])
    story.truncate({"day": date(2024, 1, 2)})
    return story.end("partitioned by a DATE: directories are named by the day's number")


@by_pypaimon
def timestamp_partitions(root: Path) -> History:
    columns = pa.schema([("at", pa.timestamp("ms")), ("id", pa.int32())])
    story = Story.begin(root, "timestamp_partitions", columns=columns, partition_keys=["at"])
    for hour in (0, 1, 2):
        story.append([(datetime(2024, 1, 1, hour, 30), hour), (datetime(2024, 1, 2), hour + 10)])
    return story.end("partitioned by a TIMESTAMP, whose colons are escaped in paths")


@by_pypaimon
def new_schema(root: Path) -> History:
    story = Story.begin(root, "new_schema", partition_keys=["dt"])
    story.append(some("a", 0))
    story.add_column("w", "STRING")
    story.append([("a", 10, "v10", "w10"), ("b", 11, "v11", None)])
    story.overwrite({"dt": "a"}, [("a", 20, "v20", "w20")])
    return story.end("a column added between commits: snapshots of two schemas")


@by_pypaimon
def append_deletion_vectors(root: Path) -> History:
    options = {
        "row-tracking.enabled": "true",
        "data-evolution.enabled": "true",
        "deletion-vectors.enabled": "true",
    }
    story = Story.begin(root, "append_deletion_vectors", partition_keys=["dt"], options=options)
    story.append(some("a", 0, 5))
    story.append(some("b", 10, 5))
    story.delete_by_row_id([1, 7], [("a", 1, "v1"), ("b", 12, "v12")])
    story.delete_by_row_id([2], [("a", 2, "v2")])
    return story.end("rows of an append table deleted by deletion vectors; Java 1.4 refuses it", opens_in_java=False)


@by_pypaimon
def data_directory(root: Path) -> History:
    options = {"data-file.path-directory": "data"}
    story = Story.begin(root, "data_directory", partition_keys=["dt"], options=options)
    day_by_day(story, 2)
    story.overwrite({"dt": "2024-01-01"}, some("2024-01-01", 900))
    return story.end("data files in a directory of their own below the table")


@by_pypaimon
def external_paths(root: Path) -> History:
    outside = (root / "outside" / "one", root / "outside" / "two")
    options = {
        "data-file.external-paths": ",".join(f"file://{path}" for path in outside),
        "data-file.external-paths.strategy": "round-robin",
    }
    story = Story.begin(root, "external_paths", partition_keys=["dt"], options=options)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(external_path_provider, "random", _InTurn())
        day_by_day(story, 3)
        story.overwrite({"dt": "2024-01-01"}, some("2024-01-01", 900))
    return story.end("data files in two directories outside the table", external=outside)


class _InTurn(Random):
    """Where each writer begins its round is left to chance by pypaimon: one time in eight all of them would begin alike."""

    def __init__(self) -> None:
        super().__init__()
        self._turns = count()

    def randint(self, first: int, last: int) -> int:
        return first + next(self._turns) % (last - first + 1)


@by_java
def merged_manifests(root: Path) -> History:
    options = {"manifest.merge-min-count": "2", "manifest.full-compaction-threshold-size": "1 B"}
    story = Story.begin(root, "merged_manifests", partition_keys=["dt"], options=options)
    for number in range(8):
        story.write_by_java(some(f"2024-01-{number % 3 + 1:02}", number * 10, 2))
    story.write_by_java(some("2024-01-01", 900), overwrite={"dt": "2024-01-01"})
    story.write_by_java(some("2024-01-02", 910))
    return story.end("small manifests merged commit by commit, so that snapshots share few of them")


@by_java
def statistics(root: Path) -> History:
    story = Story.begin(root, "statistics", partition_keys=["dt"])
    day_by_day(story, 2)
    story.analyze_by_java()
    story.append(some("2024-01-05", 500))
    story.analyze_by_java()
    story.append(some("2024-01-06", 600))
    return story.end("two ANALYZE snapshots, each with a statistics file")


@by_java
def file_index(root: Path) -> History:
    options = {"file-index.bloom-filter.columns": "id", "file-index.in-manifest-threshold": "1 B"}
    story = Story.begin(root, "file_index", partition_keys=["dt"], options=options)
    for day in (1, 2, 3):
        story.write_by_java(some(f"2024-01-{day:02}", day * 10, 30))
    story.write_by_java(some("2024-01-01", 900), overwrite={"dt": "2024-01-01"})
    return story.end("a bloom filter beside every data file, as its extra file")


@by_java
def append_compaction(root: Path) -> History:
    options = {"bucket": "1", "bucket-key": "id"}
    story = Story.begin(root, "append_compaction", partition_keys=["dt"], options=options)
    for number in range(3):
        story.write_by_java(some("2024-01-01", number * 10))
    story.compact_by_java(["2024-01-01"])
    story.write_by_java(some("2024-01-02", 500))
    return story.end("three small files of an append table compacted into one")


@by_java
def decoupled_deltas(root: Path) -> History:
    options = {"changelog.num-retained.min": "10", "changelog.num-retained.max": "20"}
    story = Story.begin(root, "decoupled_deltas", partition_keys=["dt"], options=options)
    day_by_day(story, 3)
    story.overwrite({"dt": "2024-01-01"}, some("2024-01-01", 900))
    story.append(some("2024-01-09", 990))
    story.expire_by_java(2)
    return story.end(
        "an append table whose changelogs outlive its snapshots: their deltas are kept, and what they added"
    )
