"""Histories of primary-key tables: levels, index files, deletion vectors and changelogs."""

from __future__ import annotations

from pathlib import Path

from tests.formats.paimon.register import by_java, by_pypaimon, some
from tests.formats.paimon.story import History, Story

KEY = ("dt", "id")


@by_java
def key_upgrades(root: Path) -> History:
    story = Story.begin(root, "key_upgrades", partition_keys=["dt"], primary_keys=KEY, options={"bucket": "1"})
    # One file in a bucket: compaction only lifts it, so that DELETE at level 0 and ADD at level 5 name one file.
    story.write_by_java(some("a", 0), compact=True)
    story.write_by_java(some("b", 0))
    story.write_by_java([("b", 1, "new"), ("b", 7, "v7")], kinds=["+I", "+I"])
    story.compact_by_java(["b"])
    story.write_by_java([("a", 1, "x")], kinds=["-D"])
    return story.end(
        "a primary key, fixed buckets: a file lifted to another level in one delta, others merged, a row deleted"
    )


@by_java
def key_appends(root: Path) -> History:
    options = {"bucket": "2", "write-only": "true"}
    story = Story.begin(root, "key_appends", partition_keys=["dt"], primary_keys=KEY, options=options)
    for number in range(3):
        story.append(some("a", number * 2, 4))
    story.truncate({"dt": "a"})
    story.append(some("b", 0))
    story.write_by_java([("b", 1, "new")])
    return story.end("a primary key, written by pypaimon and Java, never compacted")


@by_java
def key_dynamic_buckets(root: Path) -> History:
    options = {"bucket": "-1", "dynamic-bucket.target-row-num": "4"}
    story = Story.begin(root, "key_dynamic_buckets", partition_keys=["dt"], primary_keys=KEY, options=options)
    story.write_by_java(some("a", 0, 4), bucket=0)
    story.write_by_java(some("a", 4, 4), bucket=1)
    story.write_by_java([*some("b", 0, 4)], bucket=0)
    story.write_by_java([("a", 1, "new")], bucket=0, compact=True)
    story.truncate_by_java({"dt": "b"})
    return story.end("a primary key with HASH index files; Java dropped a partition and its index entries")


@by_java
def key_deletion_vectors(root: Path) -> History:
    options = {"bucket": "1", "deletion-vectors.enabled": "true"}
    story = Story.begin(root, "key_deletion_vectors", partition_keys=["dt"], primary_keys=KEY, options=options)
    story.write_by_java(some("a", 0, 6), compact=True)
    story.write_by_java([("a", 1, "new"), ("a", 9, "v9")])
    story.write_by_java([("a", 2, "x")], kinds=["-D"])
    story.write_by_java(some("b", 0))
    return story.end("a primary key with deletion vectors: index files that say which rows of a data file are gone")


@by_java
def key_vectors_on_a_branch(root: Path) -> History:
    options = {"bucket": "1", "deletion-vectors.enabled": "true"}
    story = Story.begin(root, "key_vectors_on_a_branch", partition_keys=["dt"], primary_keys=KEY, options=options)
    story.write_by_java(some("a", 0, 6), compact=True)
    story.write_by_java([("a", 1, "new")])
    story.tag("fourth", 4)
    story.branch("b1", "fourth")
    story.delete_tag("fourth")
    story.write_by_java([("a", 3, "x")], kinds=["-D"])
    story.write_by_java([("a", 4, "x")], kinds=["-D"], branch="b1")
    return story.end("main and a branch share data files and go on with different deletion vectors for them")


@by_java
def key_index_beside_data(root: Path) -> History:
    options = {"bucket": "-1", "index-file-in-data-file-dir": "true"}
    story = Story.begin(root, "key_index_beside_data", partition_keys=["dt"], primary_keys=KEY, options=options)
    story.write_by_java(some("a", 0), bucket=0)
    story.write_by_java(some("b", 0), bucket=0)
    story.write_by_java(some("b", 10), bucket=1)
    return story.end("HASH index files in the bucket directories")


@by_pypaimon
def key_postponed(root: Path) -> History:
    story = Story.begin(root, "key_postponed", partition_keys=["dt"], primary_keys=KEY, options={"bucket": "-2"})
    story.append(some("a", 0))
    story.append(some("b", 0))
    return story.end("rows in bucket-postpone, which no reader shows before a compaction gives them a bucket")


@by_java
def changelog_input(root: Path) -> History:
    options = {"bucket": "1", "changelog-producer": "input"}
    story = Story.begin(root, "changelog_input", partition_keys=["dt"], primary_keys=KEY, options=options)
    story.write_by_java(some("a", 0))
    story.write_by_java([("a", 1, "v1"), ("a", 1, "new")], kinds=["-U", "+U"])
    story.write_by_java([("a", 2, "v2")], kinds=["-D"])
    story.write_by_java(some("a", 5), compact=True)
    return story.end("changelog files beside the data files, in the changelog manifest list of each snapshot")


@by_java
def changelog_lookup(root: Path) -> History:
    options = {"bucket": "1", "changelog-producer": "lookup"}
    story = Story.begin(root, "changelog_lookup", partition_keys=["dt"], primary_keys=KEY, options=options)
    story.write_by_java(some("a", 0))
    story.write_by_java([("a", 1, "new")])
    story.write_by_java([("a", 2, "v2")], kinds=["-D"])
    return story.end("changelog files that compaction made")


@by_java
def decoupled_changelog(root: Path) -> History:
    options = {
        "bucket": "1",
        "changelog-producer": "input",
        "changelog.num-retained.min": "10",
        "changelog.num-retained.max": "20",
    }
    story = Story.begin(root, "decoupled_changelog", partition_keys=["dt"], primary_keys=KEY, options=options)
    story.write_by_java(some("a", 0), compact=True)
    story.write_by_java([("a", 1, "v1"), ("a", 1, "new")], kinds=["-U", "+U"])
    story.write_by_java(some("b", 0), compact=True)
    story.write_by_java([("a", 2, "v2")], kinds=["-D"], compact=True)
    story.expire_by_java(3)
    return story.end("snapshots expired, their changelogs live on in changelog/")
