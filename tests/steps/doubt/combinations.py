"""Every job, moment, change, relation and kind of disappearance, multiplied; and why some products make no sense."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from tests.steps.doubt.groups import Group, groups
from tests.steps.doubt.kinds import PAIMON, Family
from tests.steps.doubt.lake import DELETES_FILES, DELETION, HANDOFF, ORPHANS, PARTITIONS
from tests.steps.doubt.scenes import Change, Moment, Scene

NOWHERE = Path("/nowhere")


@dataclass(frozen=True, slots=True)
class Combination:
    """One group in one scene."""

    scene: Scene
    group: Group

    def __str__(self) -> str:
        words = (self.scene.job, self.scene.moment.name, self.scene.change.name, self.group.relation, self.group.kind)
        return "-".join(map(str, words)).lower()

    @property
    def must_be_left_alone(self) -> bool:
        """Whether the job may not work on the cleaned table's directory. Before the verification, it has done so."""
        return self.is_noticed and self.scene.moment is not Moment.BEFORE_VERIFY

    @property
    def is_noticed(self) -> bool:
        """Whether the run has to take note that the table cannot be seen."""
        if not self.group.kind.doubt or self.scene.job == HANDOFF:
            return False  # a handover only copies
        if self.scene.job == PARTITIONS and self.group.kind.manifests:
            return False  # other tables' manifests are not asked for
        if self.scene.moment is Moment.BEFORE_PLAN:
            return True
        if self.scene.job not in DELETES_FILES and self.scene.moment is Moment.BETWEEN_BATCHES:
            return False  # a run that deletes nothing looks around twice a minute
        if self.group.kind.for_new_processes and self.scene.moment is not Moment.BEFORE_APPLY:
            return False
        if self.scene.job == DELETION and self.scene.moment is Moment.BEFORE_VERIFY and self.group.kind.spares_tags:
            return False  # the verification finds by the tag what has to come back
        # What a plan has read whole since the table last changed is known, whatever becomes of the metadata after it.
        unread = self.group.kind.family in (Family.DAMAGED, Family.NAMELESS)
        return not unread or self.scene.change is Change.TOOK_A_FILE

    @property
    def must_be_named(self) -> bool:
        """Whether it has to be said for whose sake: if there is anything to be said of, or a plan that had it."""
        if self.scene.moment is Moment.BEFORE_PLAN:
            return self.is_noticed and not self.group.hides_the_cleaned
        # Of tables that changed and whose manifests cannot be read, the first stops everything, and is the one named.
        return self.is_noticed and not self.group.kind.manifests

    @property
    def must_go_through_again(self) -> bool:
        """Whether the job can do all of its work once the table is back."""
        kind, changed = self.group.kind, self.scene.change is Change.TOOK_A_FILE
        if kind.leaves_a_name or (kind.leaves_a_name_if_changed and changed):
            return False
        if self.scene.job == HANDOFF and self.group.cleaned.format == PAIMON:
            return False
        return self.scene.moment is not Moment.BEFORE_VERIFY  # files that were brought back are young


def scenes(jobs: Iterable[str]) -> list[Scene]:
    """All scenes of these jobs that make sense."""
    found = [
        Scene(job, moment, change, families)
        for job, moment, change in product(jobs, Moment, Change)
        for families in _families(job, change)
    ]
    met = groups(NOWHERE)
    return [scene for scene in found if why_not(scene) is None and any(map(scene.takes_part, met))]


def _families(job: str, change: Change) -> list[frozenset[Family]]:
    """Which tables vanish together. Those that may stop everything are kept apart: they would hide what the others do."""
    if job not in DELETES_FILES:
        together = [{Family.ABSENT, Family.DAMAGED, Family.NAMELESS}, {Family.SILENT}]
    elif change is Change.NOTHING:
        together = [{Family.ABSENT, Family.DAMAGED}, {Family.NAMELESS}, {Family.UNMOUNTED}, {Family.SILENT}]
    else:
        together = [{Family.ABSENT}, {Family.DAMAGED, Family.NAMELESS}, {Family.UNMOUNTED}]
    return [frozenset(families) for families in together]


def why_not(scene: Scene) -> str | None:
    """Why a scene makes no sense, if it makes none."""
    if scene.moment is Moment.BEFORE_VERIFY and scene.change is Change.NOTHING:
        return "what has gone by then was nobody's"
    if scene.job in DELETES_FILES:
        return None
    if scene.change is Change.TOOK_A_FILE:
        return "the job deletes no file that could be missed"
    if scene.moment is Moment.BEFORE_VERIFY:
        return "the job has nothing to verify: its commits are checked when they are made"
    return None


def in_short(scenes: Iterable[Scene]) -> list[Scene]:
    """The scenes that a short run plays: those that no other of them makes superfluous."""
    return [scene for scene in scenes if not _is_weaker(scene)]


def _is_weaker(scene: Scene) -> bool:
    """Whether another scene asks for more at the same place."""
    if Family.SILENT in scene.families:
        return scene.job != ORPHANS or scene.moment is Moment.BETWEEN_BATCHES
    if scene.families == {Family.NAMELESS}:
        return scene.job != ORPHANS or scene.moment is not Moment.BEFORE_PLAN
    if Family.UNMOUNTED in scene.families:
        return scene.moment is not Moment.BEFORE_APPLY or scene.change is Change.TOOK_A_FILE
    return scene.moment is Moment.BETWEEN_BATCHES and scene.change is Change.NOTHING


def combinations(scenes: Iterable[Scene], turn: int | None = None) -> list[Combination]:
    """Every scene with every group that takes part in it."""
    # Only the names count here: the lake that a test uses has the same groups elsewhere.
    found = groups(NOWHERE, turn)
    return [Combination(scene, group) for scene in scenes for group in found if scene.takes_part(group)]
