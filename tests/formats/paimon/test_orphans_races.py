"""Deeds of others between the plan and the apply of an orphan cleanup: what is needed again stays, and other tables' files too."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from lakewarden.model.errors import PlanOutdatedError
from lakewarden.model.run import RunResult
from tests.formats.paimon import java, scenes
from tests.formats.paimon.histories import age, plant
from tests.formats.paimon.reading import Ref, branch_path, open_table
from tests.formats.paimon.register import some
from tests.formats.paimon.scenes import Deed, Scene
from tests.formats.paimon.site import ORPHANS, Site, name_of
from tests.formats.paimon.story import Story
from tests.support.deployments import Seen
from tests.support.worlds import at_batch

BATCH = 10
OLD_FIRST = tuple(some("2024-01-01", 0))


def build(warehouse: Path) -> tuple[Scene, set[Path]]:
    """A table whose first tag is gone, and with it the last word for some old files; and those files."""
    story = Story.begin(warehouse, "t", partition_keys=["dt"])
    story.append(list(OLD_FIRST))
    story.tag("first", 1)
    held = story.content()
    story.overwrite({"dt": "2024-01-01"}, some("2024-01-01", 900))
    # Until the manifests are merged, the ADD of the old file is still named in them.
    story.compact_manifests_by_java()
    story.append(some("2024-01-02", 910))
    story.expire_by_java(1)
    tag = (story.location / "tag" / "tag-first").read_bytes()
    story.delete_tag("first")
    history = story.end("a tag that may come back", leftovers=held)
    age(history)
    return Scene(history, story, {"tag": tag}), {history.location / path for path in held}


def brings_back(scene: Scene) -> None:
    """Somebody restores the tag from a backup: orphans are needed again."""
    _put(scene, "main")


def brings_back_on_a_branch(scene: Scene) -> None:
    """The same on a branch that is new as well."""
    java.create_tag(scene.location, "now", scene.snapshots()[-1])
    open_table(scene.location).branch_manager().create_branch("work", "now")
    rows = scene.story.states[Ref(snapshot=scene.snapshots()[-1])]
    for ref in (Ref(tag="now"), Ref("work", tag="now"), Ref("work", snapshot=scene.snapshots()[-1])):
        scene.story.states[ref] = rows
    _put(scene, "work")


def _put(scene: Scene, branch: str) -> None:
    home = branch_path(scene.location, branch) / "tag"
    home.mkdir(parents=True, exist_ok=True)
    (home / "tag-first").write_bytes(scene.saved["tag"])
    scene.story.states[Ref(branch, tag="first")] = OLD_FIRST


DEEDS: dict[str, Deed] = {
    "quiet": scenes.nothing,
    "brought_back": brings_back,
    "brought_back_on_a_branch": brings_back_on_a_branch,
    "brought_back_meanwhile": brings_back,
    "committed": scenes.commits,
    "made_again": scenes.makes_it_again,
}
NEEDED = [name for name in DEEDS if name.startswith("brought_back")]


@dataclass(frozen=True)
class Day:
    scenes: dict[str, Scene]
    leftovers: dict[str, set[Path]]
    planted: dict[str, set[Path]]
    plan: Seen
    result: RunResult


@pytest.fixture(scope="module")
def day(spark: object, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Day]:
    with Site(tmp_path_factory.mktemp("races"), names=tuple(DEEDS)) as site:
        site.sections["orphan_cleanup"]["batch_size"] = BATCH
        found, leftovers, planted = {}, {}, {}
        for name in DEEDS:
            found[name], leftovers[name] = build(site.warehouse(name))
            planted[name] = plant(found[name].history)
        plan = site.plan(ORPHANS)
        meanwhile = "brought_back_meanwhile"
        for name, deed in DEEDS.items():
            if name != meanwhile:
                deed(found[name])
        files = sorted(row["uri"] for row in plan.rows if row["verdict"] == "orphan")
        first = next(i for i, uri in enumerate(files) if f"/{meanwhile}/" in uri)
        act = at_batch(first // BATCH * BATCH, lambda: DEEDS[meanwhile](found[meanwhile]))
        yield Day(found, leftovers, planted, plan, site.apply(plan, progress=act))


@pytest.mark.parametrize("name", DEEDS)
def test_all_of_them_were_planned(day: Day, name: str) -> None:
    scene = day.scenes[name]
    assert day.plan.orphans(name_of(scene.history, name)) == day.planted[name] | day.leftovers[name]


@pytest.mark.parametrize("name", NEEDED)
def test_what_is_needed_again_stays(day: Day, name: str) -> None:
    assert all(path.exists() for path in day.leftovers[name])
    day.scenes[name].check()
    gone = {path for path in day.planted[name] if not path.exists()}
    assert gone == day.planted[name], "the other orphans go"


@pytest.mark.parametrize("name", ["quiet", "committed"])
def test_what_nobody_brought_back_goes(day: Day, name: str) -> None:
    assert not any(path.exists() for path in day.planted[name] | day.leftovers[name])
    day.scenes[name].check()


def test_another_table_in_its_place_is_left_alone(day: Day) -> None:
    day.scenes["made_again"].check()
    stopped = {entry.uri: entry.code for entry in day.result.failed}
    assert set(stopped.values()) <= {PlanOutdatedError.code}
    assert day.result.status == ("partial" if stopped else "done")


@pytest.mark.usefixtures("spark")
def test_a_table_that_was_dropped_does_not_stop_the_others(tmp_path: Path) -> None:
    with Site(tmp_path, names=("dropped", "quiet")) as site:
        found = {name: build(site.warehouse(name)) for name in site.names}
        planted = {name: plant(scene.history) for name, (scene, _) in found.items()}
        plan = site.plan(ORPHANS)
        scenes.drops(found["dropped"][0])
        result = site.apply(plan)
        gone = planted["quiet"] | found["quiet"][1]
        assert not any(path.exists() for path in gone)
        assert {entry.uri.split("/lake.db/")[0].rpartition("/")[2] for entry in result.failed} == {"dropped"}
        assert (result.status, result.deleted.files, result.absent) == ("partial", len(gone), 0)
