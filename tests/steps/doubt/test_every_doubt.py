"""Every kind of disappearance with every relation, in every scene: the long version."""

from __future__ import annotations

import pytest

from tests.steps.doubt.combinations import Combination
from tests.steps.doubt.lake import DELETION, EXPIRY, HANDOFF, ORPHANS, PARTITIONS
from tests.steps.doubt.scenes import Scene
from tests.steps.doubt.suite import OnOneLake, Plays, judge, judge_others


@pytest.mark.soak
@pytest.mark.timeout(3600)
class TestEverything(OnOneLake):
    jobs = (ORPHANS, DELETION, EXPIRY, PARTITIONS, HANDOFF)
    turn = None
    short = False

    def test_all_groups_of_a_scene(self, plays: Plays, scene: Scene) -> None:
        played = plays.played(scene)
        judge_others(played, scene, plays.lake)
        wrong = {}
        for group in filter(scene.takes_part, plays.lake.groups):
            try:
                judge(played, Combination(scene, group))
            except AssertionError as error:
                wrong[group.name] = str(error)
        assert not wrong
