"""What must hold in every combination: nothing is lost, doubt is named, others are cleaned, and it passes."""

from __future__ import annotations

from typing import ClassVar

from lakewarden.model.errors import MissingStoreError
from lakewarden.model.run import RunStatus
from tests.steps.doubt.combinations import Combination, in_short, scenes
from tests.steps.doubt.groups import Group
from tests.steps.doubt.kinds import Family
from tests.steps.doubt.lake import DELETES_FILES, DoubtLake
from tests.steps.doubt.scenes import Change, Moment, Played, Scene, play


class OnOneLake:
    """Scenes of some jobs, played on one lake; a subclass says which."""

    jobs: ClassVar[tuple[str, ...]]
    turn: ClassVar[int | None]
    """Which of the relations each kind of disappearance meets; None: all of them."""
    short: ClassVar[bool] = True
    """Whether scenes are left out that ask for less than others."""

    @classmethod
    def scenes(cls) -> list[Scene]:
        found = scenes(cls.jobs)
        return in_short(found) if cls.short else found


class DoubtSuite(OnOneLake):
    """Every combination is a test of its own."""

    def test_needed_files_stay_and_the_doubt_is_named(self, plays: Plays, combination: Combination) -> None:
        judge(plays.played(combination.scene), combination)

    def test_others_are_cleaned(self, plays: Plays, scene: Scene) -> None:
        judge_others(plays.played(scene), scene, plays.lake)


class Plays:
    """A lake, and what was played on it."""

    def __init__(self, lake: DoubtLake) -> None:
        self.lake = lake
        self._played: dict[Scene, Played] = {}

    def played(self, scene: Scene) -> Played:
        """Each scene once."""
        if scene not in self._played:
            self._played[scene] = play(self.lake, scene)
        return self._played[scene]


def judge(played: Played, combination: Combination) -> None:
    scene, group = combination.scene, combination.group
    name, kind = group.name, group.kind
    assert not played.lost[name], "files that a table needed went while it could not be seen"
    if combination.must_be_left_alone:
        assert not played.done[name], "its directory was worked on"
    elif not kind.doubt and scene.moment is Moment.BEFORE_PLAN and group.victim is not group.cleaned:
        assert played.done[name], "a table that only changed its name holds nobody up"
    if combination.must_be_named:
        said = says(played, group)
        assert said, f"nothing names {group.victim.identifier}"
        assert all(said), "a refusal without a next step"
    assert not played.lost_again[name], "files that a table needs are not there when it is back"
    if combination.must_go_through_again:
        assert played.done_again[name], "the same work does not go through when the table is back"


def judge_others(played: Played, scene: Scene, lake: DoubtLake) -> None:
    """Directories without doubt are cleaned at once, where anybody can tell which they are."""
    stopping = {Family.SILENT}
    if scene.job in DELETES_FILES:
        changed = scene.change is Change.TOOK_A_FILE
        stopping |= {Family.UNMOUNTED, Family.NAMELESS, *([Family.DAMAGED] if changed else [])}
    unknown = bool(stopping & scene.families)
    for group in lake.controls:
        assert not played.lost[group.name]
        assert not played.lost_again[group.name]
        assert unknown or played.done[group.name]
        assert played.done_again[group.name]
    assert played.again.result is not None
    assert played.again.result.status is RunStatus.DONE


def says(played: Played, group: Group) -> list[str]:
    """The next step of everything that names the table in doubt. Of catalogs that do not answer, the first is named."""
    work, found = played.first, []
    names = ["catalog"] if group.kind.family is Family.SILENT else [group.victim.identifier]
    names += [group.cleaned.identifier] if group.hides_the_cleaned else []
    if work.plan is not None:
        plan = work.plan.plan
        refusals = [(table.identifier, table.refusal) for table in plan.tables]
        refusals += [("", root.refusal) for root in plan.roots]
        found += [why.hint for about, why in refusals if why and _names(f"{about} {why.message}", names)]
    found += [code for code, text in work.failures if _names(text, names)]
    if work.error is not None and (_names(str(work.error), names) or isinstance(work.error, MissingStoreError)):
        found.append(work.error.hint)
    return found


def _names(text: str, names: list[str]) -> bool:
    return any(name in text for name in names)
