"""Paimon's own expiry runs while orphans are looked for (apache/paimon#7710): snapshots and lists vanish between listing
and reading. The plan is right or the table refused by its code; a used set never becomes empty unseen."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lakewarden.model.errors import IncompleteManifestError, UnreadableMetadataError, UnsettledTableError
from tests.formats.paimon import java
from tests.formats.paimon.histories import Library, age, plant
from tests.formats.paimon.register import some
from tests.formats.paimon.scenes import Scene
from tests.formats.paimon.site import DELETION, EXPIRY, ORPHANS, Site, name_of

HISTORY = "partition_overwrites"
REFUSALS = {UnsettledTableError.code, UnreadableMetadataError.code, IncompleteManifestError.code}
Progress = Callable[[str, int, int], None]


def at_stage(name: str, action: Callable[[], None]) -> Progress:
    def act(stage: str, done: int, total: int) -> None:
        if stage == name:
            action()

    return act


def expire(scene: Scene) -> None:
    """All but the latest snapshot, with what only they needed."""
    scene.story.expire_by_java(1)


def commit_and_expire(scene: Scene) -> None:
    """Not one of the snapshots that were there is left, and not one of their manifest lists."""
    scene.story.write_by_java(some("2024-03-01", 3000))
    scene.story.expire_by_java(1)


def quiet(scene: Scene) -> None:
    """A neighbour to whom nothing happens."""


DEEDS: dict[str, Callable[[Scene], None]] = {"expired": expire, "replaced": commit_and_expire, "quiet": quiet}


@pytest.fixture
def site(library: Library, tmp_path: Path) -> Iterator[tuple[Site, dict[str, Scene], dict[str, set[Path]]]]:
    """A scene for each deed, all files old, orphans planted."""
    with Site(tmp_path, names=tuple(DEEDS)) as made:
        scenes = {name: Scene.of(library.copy_of(HISTORY, made.warehouse(name))) for name in DEEDS}
        planted = {}
        for name, scene in scenes.items():
            age(scene.history)
            planted[name] = plant(scene.history)
        yield made, scenes, planted


World = tuple[Site, dict[str, Scene], dict[str, set[Path]]]


@pytest.mark.parametrize("stage", ["list and compare", "look again"])
def test_expiry_between_the_steps_of_a_plan(site: World, stage: str) -> None:
    made, scenes, planted = site

    def act() -> None:
        for name, deed in DEEDS.items():
            deed(scenes[name])

    plan = made.plan(ORPHANS, progress=at_stage(stage, act))
    for name, scene in scenes.items():
        table = plan.table(name_of(scene.history, name))
        assert table.refusal is None
        there = {path for path in plan.orphans(table.identifier) if path.exists()}
        assert there == planted[name]
        assert table.verdicts["live"].files > 0
    result = made.apply(plan)
    assert result.status == "done"
    for name, scene in scenes.items():
        scene.check()
        assert not any(path.exists() for path in planted[name])


@pytest.mark.parametrize(("job", "stage"), [(EXPIRY, "decide"), (EXPIRY, "compare"), (DELETION, "compare")])
def test_expiry_by_java_while_ours_is_planned(site: World, job: str, stage: str) -> None:
    made, scenes, _ = site
    if job == DELETION:
        made.run(EXPIRY)
        made.later(2)

    def act() -> None:
        for name, deed in DEEDS.items():
            deed(scenes[name])

    plan = made.plan(job, progress=at_stage(stage, act))
    assert plan.refusal(name_of(scenes["quiet"].history, "quiet")) is None
    for name, scene in scenes.items():
        assert plan.refusal(name_of(scene.history, name)) in {None, *REFUSALS}
    result = made.apply(plan)
    assert {entry.code for entry in result.failed} <= {"LW-PLAN-005"}
    if job == EXPIRY:
        made.later(2)
        made.run(DELETION)
    for scene in scenes.values():
        scene.check()


def test_a_table_that_cannot_be_read_any_more_stops_its_own_root_alone(site: World) -> None:
    made, scenes, planted = site
    plan = made.plan(ORPHANS)
    scenes["replaced"].story.write_by_java(some("2024-03-01", 3000))
    newest = max(scenes["replaced"].location.glob("manifest/manifest-list-*"), key=lambda path: path.stat().st_mtime_ns)
    newest.write_bytes(newest.read_bytes()[:-20])
    result = made.apply(plan)
    assert [entry.code for entry in result.failed] == ["LW-PLAN-005"]
    assert all(path.exists() for path in planted["replaced"])
    for name in ("expired", "quiet"):
        scenes[name].check()
        assert not any(path.exists() for path in planted[name])


def test_a_new_table_that_cannot_be_read_stops_every_root(site: World, library: Library) -> None:
    """Nobody knows where else it writes to."""
    made, scenes, planted = site
    plan = made.plan(ORPHANS)
    late = library.copy_of("plain_appends", made.warehouse("quiet"))
    (late.location / "schema" / "schema-0").write_text("{")
    result = made.apply(plan)
    assert {entry.code for entry in result.failed} == {"LW-PLAN-005"}
    assert len(result.failed) == len(scenes)
    assert all(path.exists() for paths in planted.values() for path in paths)


@contextmanager
def busy_writer(scene: Scene) -> Iterator[list[int]]:
    """Java commits and expires as fast as it can, keeping one or two snapshots."""
    done = [0]
    stop = threading.Event()

    def work() -> None:
        while not stop.is_set():
            scene.story.write_by_java(some("2024-03-01", done[0] % 50 * 10, 1))
            java.expire(scene.location, retain_max=1, retain_min=1, time_retained_ms=0)
            done[0] += 1
            stop.wait(0.05)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield done
    finally:
        stop.set()
        thread.join()


def test_beside_a_writer_that_never_rests(site: World) -> None:
    made, scenes, planted = site
    made.sections["orphan_cleanup"]["batch_size"] = 10
    scene = scenes["replaced"]
    with busy_writer(scene) as commits:
        plan = made.plan(ORPHANS)
        between = commits[0]
        result = made.apply(plan)
    assert between > 1
    assert {entry.code for entry in result.failed} <= {"LW-PLAN-005"}
    table = plan.table(name_of(scene.history, "replaced"))
    if table.refusal is None:
        assert table.verdicts["live"].files > 0
    else:
        assert table.refusal.code in REFUSALS
    # What Java removed after it was listed is planned at worst, and absent then; nothing that is needed is.
    found = plan.orphans(table.identifier)
    assert {path for path in found if path.exists()} <= planted["replaced"]
    for name, one in scenes.items():
        one.check()
        assert name == "replaced" or not any(path.exists() for path in planted[name])
