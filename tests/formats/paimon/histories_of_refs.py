"""Histories of tags, branches, consumers, rollbacks and hints."""

from __future__ import annotations

from pathlib import Path

from tests.formats.paimon.register import by_java, by_pypaimon, day_by_day, some
from tests.formats.paimon.story import History, Story


@by_pypaimon
def several_tags(root: Path) -> History:
    story = Story.begin(root, "several_tags", partition_keys=["dt"])
    day_by_day(story, 3)
    story.tag("first", 1)
    story.tag("also_first", 1)
    story.tag("third", 3, time_retained="1d")
    story.overwrite({"dt": "2024-01-01"}, some("2024-01-01", 900))
    story.truncate({"dt": "2024-01-02"})
    story.tag("fifth", 5)
    story.append(some("2024-01-09", 990))
    return story.end("four tags, two of one snapshot, one with a time to live; later commits delete what they hold")


@by_java
def tags_without_snapshots(root: Path) -> History:
    story = Story.begin(root, "tags_without_snapshots", partition_keys=["dt"])
    day_by_day(story, 3)
    story.tag("second", 2)
    story.overwrite({"dt": "2024-01-01"}, some("2024-01-01", 900))
    story.overwrite({"dt": "2024-01-02"}, some("2024-01-02", 910))
    story.expire_by_java(2)
    return story.end("Java expired the snapshots; a tag still holds one of them, and EARLIEST is not 1")


@by_java
def deleted_tag(root: Path) -> History:
    story = Story.begin(root, "deleted_tag", partition_keys=["dt"])
    story.append(some("2024-01-01", 0))
    held = story.content()
    story.tag("kept", 1)
    story.overwrite({"dt": "2024-01-01"}, some("2024-01-01", 900))
    # Until the manifests are merged, the ADD of the old file is still named in them.
    story.compact_manifests_by_java()
    story.append(some("2024-01-02", 910))
    story.expire_by_java(1)
    story.delete_tag("kept")
    return story.end(
        "pypaimon deleted the tag after its snapshot had expired: what it alone held is left", leftovers=held
    )


@by_pypaimon
def branch_from_tag(root: Path) -> History:
    story = Story.begin(root, "branch_from_tag", partition_keys=["dt"])
    day_by_day(story, 3)
    story.tag("second", 2)
    story.branch("b1", "second")
    story.overwrite({"dt": "2024-01-01"}, some("2024-01-01", 900))
    story.append(some("2024-01-09", 990))
    return story.end("a branch made from a tag, both still there; main went on and deleted the branch's files")


@by_pypaimon
def branch_without_its_tag(root: Path) -> History:
    story = Story.begin(root, "branch_without_its_tag", partition_keys=["dt"])
    day_by_day(story, 3)
    story.tag("second", 2)
    story.branch("b1", "second")
    story.delete_tag("second")
    story.overwrite({"dt": "2024-01-01"}, some("2024-01-01", 900))
    story.overwrite({"dt": "2024-01-02"}, some("2024-01-02", 910))
    return story.end("main's tag is gone, so only the branch holds its files: Java's expiry destroys it")


@by_pypaimon
def branch_with_commits(root: Path) -> History:
    story = Story.begin(root, "branch_with_commits", partition_keys=["dt"])
    day_by_day(story, 2)
    story.tag("second", 2)
    story.branch("b1", "second")
    story.append(some("2024-01-05", 500), branch="b1")
    story.tag("on_branch", 3, branch="b1")
    story.overwrite({"dt": "2024-01-01"}, some("2024-01-01", 600), branch="b1")
    story.append(some("2024-01-06", 700))
    return story.end("main and the branch have different snapshots 3; the branch has a tag of its own")


@by_java
def fast_forwarded(root: Path) -> History:
    story = Story.begin(root, "fast_forwarded", partition_keys=["dt"])
    day_by_day(story, 2)
    story.tag("second", 2)
    story.branch("b1", "second")
    before = story.content()
    story.append(some("2024-01-07", 700))
    lost = story.content() - before
    story.append(some("2024-01-05", 500), branch="b1")
    story.append(some("2024-01-06", 600), branch="b1")
    story.fast_forward_by_java("b1")
    return story.end("main became the branch and forgot its own third snapshot", leftovers=lost)


@by_pypaimon
def consumers(root: Path) -> History:
    story = Story.begin(root, "consumers", partition_keys=["dt"])
    day_by_day(story, 4)
    story.overwrite({"dt": "2024-01-01"}, some("2024-01-01", 900))
    story.consumer("c1", 3)
    story.consumer("c2", 6)
    return story.end("two readers, the slower one wants snapshot 3 next")


@by_pypaimon
def rolled_back(root: Path) -> History:
    story = Story.begin(root, "rolled_back", partition_keys=["dt"])
    day_by_day(story, 2)
    before = story.content()
    story.append(some("2024-01-03", 300))
    story.overwrite({"dt": "2024-01-01"}, some("2024-01-01", 400))
    story.tag("gone", 4)
    lost = story.content() - before
    story.roll_back(2)
    story.append(some("2024-01-03", 900))
    story.append(some("2024-01-04", 910))
    story.append(some("2024-01-05", 920))
    return story.end("rolled back to 2; the ids 3 and 4 are used again for other rows", leftovers=lost)


@by_java
def rolled_back_by_java(root: Path) -> History:
    story = Story.begin(root, "rolled_back_by_java", partition_keys=["dt"])
    day_by_day(story, 2)
    before = story.content()
    story.write_by_java(some("2024-01-03", 300))
    story.write_by_java(some("2024-01-01", 400), overwrite={"dt": "2024-01-01"})
    lost = story.content() - before
    story.roll_back(2, by_java=True)
    story.write_by_java(some("2024-01-03", 900))
    return story.end("as rolled_back, with Java as writer: it, too, leaves the forgotten files", leftovers=lost)


@by_pypaimon
def snapshot_gap(root: Path) -> History:
    story = Story.begin(root, "snapshot_gap", partition_keys=["dt"])
    day_by_day(story, 3)
    story.overwrite({"dt": "2024-01-01"}, some("2024-01-01", 900))
    story.append(some("2024-01-09", 990))
    story.append(some("2024-01-10", 995))
    lists = story.lose_snapshot(3)
    return story.end("snapshot 3 was removed by hand", leftovers=lists)


@by_pypaimon
def no_hints(root: Path) -> History:
    story = Story.begin(root, "no_hints", partition_keys=["dt"])
    day_by_day(story, 3)
    story.overwrite({"dt": "2024-01-01"}, some("2024-01-01", 900))
    story.lose_hints()
    return story.end("EARLIEST and LATEST are missing: only the listing says what there is")
