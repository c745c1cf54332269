"""What happens in a scene: tables vanish at one moment of one job, come back, and the job is done again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from lakewarden.model.errors import LakewardenError
from lakewarden.model.run import RunResult
from tests.steps.doubt.groups import Group
from tests.steps.doubt.kinds import PAIMON, Attic, Family
from tests.steps.doubt.lake import BATCH, DELETION, EXPIRY, HANDOFF, ORPHANS, DoubtLake, Stage
from tests.steps.doubt.members import Member, pointer_of
from tests.steps.doubt.needs import needed
from tests.support.deployments import Deployed, Seen


class Moment(StrEnum):
    BEFORE_PLAN = "before the plan"
    BEFORE_APPLY = "between plan and apply"
    BETWEEN_BATCHES = "between two batches"
    BEFORE_VERIFY = "before the verification"


class Change(StrEnum):
    """What the table did since it was last seen, before it vanished."""

    NOTHING = "as it was seen"
    TOOK_A_FILE = "took a file in"


@dataclass(frozen=True, slots=True)
class Scene:
    job: str
    moment: Moment
    change: Change = Change.NOTHING
    families: frozenset[Family] = frozenset({Family.ABSENT, Family.DAMAGED})
    """Which tables vanish. What may stop everything is kept apart, or it would hide what the others do."""

    @property
    def stage(self) -> Stage:
        return Stage.EXPIRED if self.job in (DELETION, HANDOFF) else Stage.SEEN

    def takes_part(self, group: Group) -> bool:
        return self.family_of(group) in self.families

    def family_of(self, group: Group) -> Family:
        """Where the files of a table are being deleted, a directory without the table's metadata stops the whole run."""
        running = self.moment in (Moment.BEFORE_APPLY, Moment.BETWEEN_BATCHES)
        # A victim's own directory has files to delete if they are its released ones, or if it is the one to be cleaned.
        entered = self.job == DELETION and not group.relation.nested
        entered = entered or (self.job == ORPHANS and group.victim is group.cleaned)
        return Family.UNMOUNTED if running and entered and group.kind.unmounts else group.kind.family

    def __str__(self) -> str:
        return ", ".join((self.job, self.moment, self.change, " and ".join(sorted(self.families))))


@dataclass
class Work:
    """A plan and its run, as far as they came."""

    plan: Seen | None = None
    result: RunResult | None = None
    error: LakewardenError | None = None
    failures: list[tuple[str, str]] = field(default_factory=list)
    """Codes and words of what was left alone, from the run's own record: a run that stopped hands back no result."""


@dataclass
class Played:
    """What a scene left, by the name of each group."""

    first: Work = field(default_factory=Work)
    again: Work = field(default_factory=Work)
    lost: dict[str, set[Path]] = field(default_factory=dict)
    """Files that a table needed, and that went while it could not be seen."""
    lost_again: dict[str, set[Path]] = field(default_factory=dict)
    """Files that a table needs, and that are not there when it is back and the job was done again."""
    done: dict[str, bool] = field(default_factory=dict)
    """Whether the job did its work on the group's cleaned table while the other could not be seen."""
    done_again: dict[str, bool] = field(default_factory=dict)


def play(lake: DoubtLake, scene: Scene) -> Played:
    """Begin with the lake as it was, and let the tables of all groups that take part vanish at the scene's moment."""
    lake.restore(scene.stage)
    attic = Attic(lake.place / "attic")
    played = Played()
    wanted: dict[str, set[Path]] = {}
    left: dict[str, set[Path]] = {}

    def vanish() -> None:
        for group in lake.groups:
            if scene.takes_part(group):
                wanted[group.name] |= _disappear(group, scene, attic)
                before[group.name] = _mark(lake, scene.job, group)
        left.update({name: {path for path in paths if path.exists()} for name, paths in wanted.items()})

    for group in lake.everything:
        found = {path for member in group.members for path in lake.needed[scene.stage][member]}
        # Expiry takes the documents of Paimon's snapshots itself, as it should.
        wanted[group.name] = {path for path in found if scene.job != EXPIRY or path.parent.name != "snapshot"}
    before: dict[str, object] = {}
    with lake.deployed(**_sections(scene)) as deployed:
        deployed.later(2)
        before |= {group.name: _mark(lake, scene.job, group) for group in lake.everything}
        played.first = _work(deployed, scene, vanish)
        for group in lake.everything:
            played.lost[group.name] = {path for path in left[group.name] if not path.exists()}
        played.done = {g.name: _mark(lake, scene.job, g) != before[g.name] for g in lake.everything}
        attic.undo()
        if scene.moment is Moment.BEFORE_VERIFY and played.first.result is not None:
            # Nobody could tell which files went too early; an operator has read so and brings them back.
            deployed.warden.restore(played.first.result.run_id)
        deployed.close()
        deployed.later(2)  # released files that were kept have their delay once more
        before |= {group.name: _mark(lake, scene.job, group) for group in lake.everything}
        played.again = _work(deployed, Scene(scene.job, Moment.BEFORE_PLAN), lambda: None)
    for group in lake.everything:
        played.lost_again[group.name] = {path for path in wanted[group.name] if not path.exists()}
        played.done_again[group.name] = played.done[group.name] or _mark(lake, scene.job, group) != before[group.name]
    return played


def _disappear(group: Group, scene: Scene, attic: Attic) -> set[Path]:
    """The table takes a file in, if that is what happens, and then it vanishes; what it needed at last."""
    found: set[Path] = set()
    if scene.change is Change.TOOK_A_FILE:
        path = group.released if scene.job == DELETION else group.late
        assert path is not None
        group.take_in(path)
        if scene.job == DELETION and group.victim.format == PAIMON:
            found = group.comes_back  # some of it may have gone a moment ago, so that nobody can read it
        else:
            found = {path, *needed([group.victim])}
    group.kind.vanish(group.victim, attic)
    return found


def _sections(scene: Scene) -> dict[str, Mapping[str, Any]]:
    values: dict[str, Any] = {"batch_size": BATCH} if scene.moment is Moment.BETWEEN_BATCHES else {}
    if scene.moment is Moment.BEFORE_VERIFY:
        values["delete_mode"] = "quarantine"
    return {"orphan_cleanup": values, "physical_deletion": values} if values else {}


def _work(deployed: Deployed, scene: Scene, vanish: Callable[[], None]) -> Work:
    work = Work()
    if scene.moment is Moment.BEFORE_PLAN:
        vanish()
    once = _Once(vanish)
    try:
        work.plan = deployed.plan(scene.job)
        deployed.close()  # another process applies
        if scene.moment is Moment.BEFORE_APPLY:
            vanish()
        hook = {
            Moment.BETWEEN_BATCHES: lambda stage, done, total: once() if done else None,
            Moment.BEFORE_VERIFY: lambda stage, done, total: once() if 0 < total == done else None,
        }.get(scene.moment)
        work.result = deployed.apply(work.plan, progress=hook)
    except LakewardenError as error:
        work.error = error
    if work.result is not None:
        work.failures = [(failed.code, f"{failed.uri} {failed.message}") for failed in work.result.failed]
    elif work.plan is not None:
        # None where brakes hold all that the plan would change: it was refused before there was a run.
        for run in deployed.warden.runs(limit=1):
            steps = [step["detail"] for step in deployed.warden.run_detail(run["run_id"])["steps"]]
            work.failures = [(str(step["code"]), str(step)) for step in steps if "code" in step]
    return work


@dataclass
class _Once:
    act: Callable[[], None]
    done: bool = False

    def __call__(self) -> None:
        if not self.done:
            self.done = True
            self.act()


def _mark(lake: DoubtLake, job: str, group: Group) -> object:
    """What changes when the job does its work on the table that is to be cleaned."""
    assert group.made is not None
    assert group.orphan is not None
    if job == ORPHANS:
        return group.orphan.exists()
    if job == DELETION:
        return group.made.gone.exists()
    if job == HANDOFF:
        return _cold(group.cleaned, lake)
    return _state(group.cleaned)


def _state(member: Member) -> object:
    """What a commit changes."""
    if member.format == PAIMON:
        return sorted(path.name for path in (member.home / "snapshot").glob("snapshot-*"))
    return pointer_of(member)


def _cold(member: Member, lake: DoubtLake) -> object:
    """The copies in the cold place."""
    return sorted((lake.place / "cold" / member.catalog / member.namespace).glob(f"{member.name}-*"))
