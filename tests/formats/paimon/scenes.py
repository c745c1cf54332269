"""What happens to a table behind a plan's back: deeds of other people, each in a catalog of its own, under one plan.

Every scene goes on with a history as its writer would, and keeps account of the rows that each ref must show.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.formats.paimon import java
from tests.formats.paimon.histories import History
from tests.formats.paimon.reading import Ref, all_refs, branch_path, refs_of, rows_by_java, rows_by_pypaimon
from tests.formats.paimon.register import day_by_day, some
from tests.formats.paimon.story import COLUMNS, Story

Deed = Callable[["Scene"], None]


@dataclass
class Scene:
    """A table of string partitions while others work on it."""

    history: History
    story: Story
    saved: dict[str, bytes]
    """Snapshot files as they were at first, by name: what a backup would hold."""

    @classmethod
    def of(cls, history: History) -> Scene:
        story = Story(history.name, history.warehouse, COLUMNS, (), False, False, states=dict(history.refs))
        latest = max((ref.snapshot for ref in history.refs if ref.branch == "main" and ref.snapshot), default=None)
        story.now["main"] = list(history.refs[Ref(snapshot=latest)]) if latest else []
        saved = {path.name: path.read_bytes() for path in (history.location / "snapshot").glob("snapshot-*")}
        return cls(history, story, saved)

    @property
    def location(self) -> Path:
        return self.history.location

    def check(self, *, by_java: bool = True) -> None:
        """Every ref that is there shows its rows."""
        expected = {ref: self.story.states[ref] for ref in refs_of(self.location)}
        assert all_refs(self.location, rows_by_pypaimon) == expected
        if by_java:
            assert all_refs(self.location, rows_by_java) == expected

    def snapshots(self) -> list[int]:
        return [ref.snapshot for ref in refs_of(self.location) if ref.branch == "main" and ref.snapshot]


def nothing(scene: Scene) -> None:
    """Nobody was there."""


def commits(scene: Scene) -> None:
    """More commits: what was to stay is still there."""
    scene.story.append(some("2024-03-01", 3000))
    scene.story.overwrite({"dt": "2024-01-01"}, some("2024-01-01", 3010))


def rolls_back(scene: Scene) -> None:
    """Rolled back to 2 and written again: `snapshot-5` is another commit."""
    scene.story.roll_back(2)
    for number in range(5):
        scene.story.append(some("2024-02-01", 2000 + number * 10))


def makes_it_again(scene: Scene) -> None:
    """Dropped and made again in the same place, with as many snapshots."""
    shutil.rmtree(scene.location)
    story = Story.begin(scene.history.warehouse, scene.history.name, partition_keys=["dt"])
    day_by_day(story, 6)
    scene.story = story


def drops(scene: Scene) -> None:
    shutil.rmtree(scene.location)


def tags(scene: Scene) -> None:
    """A tag on a snapshot that is about to go."""
    scene.story.tag("mine", 3)


def branches(scene: Scene) -> None:
    """A branch from such a tag, which is deleted again: only the branch holds its files."""
    scene.story.tag("base", 3)
    scene.story.branch("work", "base")
    scene.story.delete_tag("base")


def reads_on(scene: Scene) -> None:
    """A consumer appears that wants snapshot 2 next."""
    scene.story.consumer("slow", 2)


def expires_by_java(scene: Scene) -> None:
    """Paimon's own committer was quicker."""
    scene.story.expire_by_java(2)


def writes_by_java(scene: Scene) -> None:
    """A Java writer whose commit expires snapshots itself, as every one does."""
    limits = {"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "3", "snapshot.time-retained": "1 ms"}
    scene.story.write_by_java(some("2024-03-01", 3000), options=limits)
    java.expire(scene.location, retain_max=3, retain_min=1, time_retained_ms=0)


def puts_back(name: str = "snapshot-3", branch: str = "main", tag: str = "back") -> Deed:
    """A tag made from a backup of that snapshot's file."""

    def act(scene: Scene) -> None:
        path = branch_path(scene.location, branch) / "tag" / f"tag-{tag}"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(scene.saved[name])
        number = json.loads(scene.saved[name])["id"]
        scene.story.states[Ref(branch, tag=tag)] = scene.history.refs[Ref(snapshot=number)]

    return act
