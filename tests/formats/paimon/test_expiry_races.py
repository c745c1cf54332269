"""Deeds of others between a plan and its apply, and between expiry and deletion: less is done, and nothing needed is lost."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from lakewarden.model.errors import DoubtError, PlanOutdatedError
from lakewarden.model.run import RunResult
from tests.formats.paimon import scenes
from tests.formats.paimon.histories import Library, age, backdate
from tests.formats.paimon.reading import Ref
from tests.formats.paimon.scenes import Deed, Scene
from tests.formats.paimon.site import DELETION, EXPIRY, ORPHANS, Site, name_of
from tests.support.deployments import Seen
from tests.support.lakes import local_path
from tests.support.worlds import at_batch

HISTORY = "partition_overwrites"
ALL = [1, 2, 3, 4, 5, 6]

# What happens after expiry was planned.
OUTDATED: dict[str, tuple[Deed, str]] = {
    "rolled_back": (scenes.rolls_back, "another commit"),
    "made_again": (scenes.makes_it_again, "lost its name to another table"),
    "dropped": (scenes.drops, "is not listed by its catalog any more"),
    "read_on": (scenes.reads_on, "consumer slow"),
    "expired_by_java": (scenes.expires_by_java, "gone already"),
    "written_by_java": (scenes.writes_by_java, "gone already"),
}
STILL_FITS: dict[str, Deed] = {
    "quiet": scenes.nothing,
    "committed": scenes.commits,
    "tagged": scenes.tags,
    "branched": scenes.branches,
}
# What happens after deletion was planned, or while it runs.
NEEDED_AGAIN: dict[str, Deed] = {
    "put_back": scenes.puts_back(),
    "put_back_meanwhile": scenes.puts_back(),
    "made_again_before_deletion": scenes.makes_it_again,
}
SCENES = (*OUTDATED, *STILL_FITS, *NEEDED_AGAIN)


@dataclass(frozen=True)
class Day:
    """One expiry and one deletion, with all the deeds in between."""

    site: Site
    scenes: dict[str, Scene]
    expiry: RunResult
    pending: set[Path]
    plan: Seen
    deletion: RunResult


@pytest.fixture(scope="module")
def day(library: Library, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Day]:
    with Site(tmp_path_factory.mktemp("races"), names=SCENES) as site:
        # The scene in the middle of the run needs batches before it and after it.
        site.sections["physical_deletion"]["batch_size"] = 20
        found = {name: Scene.of(library.copy_of(HISTORY, site.warehouse(name))) for name in SCENES}
        for scene in found.values():
            backdate(scene.history, 12)
            age(scene.history)
            scene.saved = Scene.of(scene.history).saved
        plan = site.plan(EXPIRY)
        for name, (deed, _) in OUTDATED.items():
            deed(found[name])
        for name, deed in STILL_FITS.items():
            deed(found[name])
        expiry = site.apply(plan)
        pending = site.pending()
        site.later(2)
        plan = site.plan(DELETION)
        scenes.puts_back()(found["put_back"])
        scenes.makes_it_again(found["made_again_before_deletion"])

        def meanwhile() -> None:
            scenes.puts_back()(found["put_back_meanwhile"])

        files = sorted(row["uri"] for row in plan.rows)
        first = next(i for i, uri in enumerate(files) if "/put_back_meanwhile/" in uri)
        # The batch before the one with the scene's first file is over.
        deletion = site.apply(plan, progress=at_batch(first // 20 * 20, meanwhile))
        yield Day(site, found, expiry, pending, plan, deletion)


def test_only_the_tables_that_still_fit_are_expired(day: Day) -> None:
    failed = {entry.uri.split(".")[0]: entry for entry in day.expiry.failed}
    assert failed.keys() == OUTDATED.keys()
    for name, (_, why) in OUTDATED.items():
        in_doubt = name in ("made_again", "dropped")
        assert failed[name].code == (DoubtError.code if in_doubt else PlanOutdatedError.code)
        assert why in failed[name].message
    assert day.expiry.status == "partial"
    assert day.expiry.changed == {"snapshots": 5 * (len(STILL_FITS) + len(NEEDED_AGAIN))}


@pytest.mark.parametrize("name", OUTDATED)
def test_a_table_that_moved_on_is_left_alone(day: Day, name: str) -> None:
    scene = day.scenes[name]
    assert not {path for path in day.pending if path.is_relative_to(scene.location)}, "what was released is taken back"
    if name != "dropped":
        scene.check()
        left = {"expired_by_java": [5, 6], "rolled_back": [1, 2, 3, 4, 5, 6, 7], "written_by_java": [7]}
        assert scene.snapshots() == left.get(name, ALL)


@pytest.mark.parametrize("name", STILL_FITS)
def test_new_refs_hold_their_files(day: Day, name: str) -> None:
    scene = day.scenes[name]
    assert scene.snapshots() == ([6, 7, 8] if name == "committed" else [6])
    scene.check()
    held = {"tagged": Ref(tag="mine"), "branched": Ref("work", snapshot=3)}
    if name in held:
        assert scene.story.states[held[name]] == scene.history.refs[Ref(snapshot=3)]


def test_deletion_leaves_what_is_needed_again(day: Day) -> None:
    """What a new tag or branch holds was released by expiry, and deletion found that out when it planned."""
    needed = day.plan.judged("live") | {path for path in day.pending if path not in day.plan.judged("pending")}
    for name in ("tagged", "branched"):
        assert any(path.is_relative_to(day.scenes[name].location) for path in needed)
    assert not any(path.is_relative_to(day.scenes["quiet"].location) for path in needed)
    gone = {path for path in day.pending if path.is_relative_to(day.scenes["quiet"].location)}
    assert gone
    assert not any(path.exists() for path in gone)


@pytest.mark.parametrize("name", ["put_back", "put_back_meanwhile"])
def test_deletion_leaves_what_came_back_since_its_plan(day: Day, name: str) -> None:
    scene = day.scenes[name]
    assert scene.snapshots() == [6]
    assert Ref(tag="back") in scene.story.states
    scene.check()
    planned = {local_path(row["uri"]) for row in day.plan.rows}
    mine = {path for path in planned if path.is_relative_to(scene.location)}
    assert {path for path in mine if path.exists()}, "some of the planned files were needed again"
    assert {path for path in mine if not path.exists()}, "the others went"


def test_a_table_made_again_keeps_its_files(day: Day) -> None:
    scene = day.scenes["made_again_before_deletion"]
    scene.check()
    stopped = [entry for entry in day.deletion.failed if "made_again_before_deletion" in entry.uri]
    assert [entry.code for entry in stopped] == [PlanOutdatedError.code]


def test_the_record_is_whole_and_nothing_is_left_to_lose(day: Day) -> None:
    assert day.site.warden.audit_verify()["ok"]
    day.site.later(-2)
    day.site.run(ORPHANS)
    for name, scene in day.scenes.items():
        if name != "dropped":
            scene.check(by_java=False)


def test_files_that_are_needed_again_stay_known_until_they_are_free(day: Day) -> None:
    """The tag that brought them back is deleted: they wait their delay again, and go with the next deletion."""
    scene = day.scenes["tagged"]
    kept = {path for path in day.site.pending() if path.is_relative_to(scene.location)}
    assert kept
    scene.story.delete_tag("mine")
    day.site.later(4)
    day.site.run(DELETION, name_of(scene.history, "tagged"))
    day.site.later(-4)
    assert not any(path.exists() for path in kept)
    assert not {path for path in day.site.pending() if path.is_relative_to(scene.location)}
    scene.check()
