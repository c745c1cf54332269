"""When a table that is not listed any more counts as dropped: after a day, in a healthy catalog, or by an operator's word."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.steps.doubt.groups import Group, groups
from tests.steps.doubt.kinds import Attic
from tests.steps.doubt.lake import ORPHANS, DoubtLake, Stage, build
from tests.steps.doubt.members import pointer_of
from tests.support.deployments import Deployed
from tests.support.lakes import local_path

DROPPED, EMPTIED = "shared_path-dropped", "other_catalog-rows_deleted"


@pytest.fixture
def lake(spark: object, tmp_path: Path) -> DoubtLake:
    """One table dropped from a catalog that lists others; another one whose catalog lists nothing any more."""
    chosen = [group for group in groups(tmp_path / "lake") if group.name in (DROPPED, EMPTIED)]
    made = build(tmp_path, chosen)
    made.restore(Stage.SEEN)
    return made


@pytest.fixture
def deployed(lake: DoubtLake) -> Iterator[Deployed]:
    with lake.deployed() as deployed:
        yield deployed


@pytest.fixture
def dropped(lake: DoubtLake) -> Group:
    return next(group for group in lake.groups if group.name == DROPPED)


def refused(deployed: Deployed, lake: DoubtLake) -> set[str]:
    """The groups whose cleaned table is refused now."""
    seen = deployed.plan(ORPHANS)
    refusals = {table.identifier for table in seen.plan.tables if table.refusal is not None}
    return {group.name for group in lake.everything if group.cleaned.identifier in refusals}


def test_a_drop_is_believed_after_a_day_and_an_empty_catalog_never(
    lake: DoubtLake, deployed: Deployed, dropped: Group
) -> None:
    attic = Attic(lake.place / "attic")
    for group in lake.groups:
        group.kind.vanish(group.victim, attic)
    assert refused(deployed, lake) == {DROPPED, EMPTIED}
    deployed.later(23)
    assert refused(deployed, lake) == {DROPPED, EMPTIED}
    deployed.later(2)
    assert refused(deployed, lake) == {EMPTIED}
    deployed.later(240)
    seen = deployed.plan(ORPHANS)
    assert dropped.victim.data / "v-new.parquet" in seen.orphans(dropped.cleaned.identifier)
    deployed.apply(seen)
    assert not (dropped.victim.data / "v-new.parquet").exists()


def test_a_table_that_comes_back_in_time_is_missed_anew(lake: DoubtLake, deployed: Deployed, dropped: Group) -> None:
    """Its day begins again when it is dropped again."""
    attic = Attic(lake.place / "attic")
    dropped.kind.vanish(dropped.victim, attic)
    assert refused(deployed, lake) == {DROPPED}
    deployed.later(20)
    attic.undo()
    assert refused(deployed, lake) == set()
    dropped.kind.vanish(dropped.victim, attic)
    deployed.later(10)
    assert refused(deployed, lake) == {DROPPED}


def test_an_operators_word_is_believed_at_once(lake: DoubtLake, deployed: Deployed) -> None:
    attic = Attic(lake.place / "attic")
    for group in lake.groups:
        pointer = pointer_of(group.victim)
        assert pointer is not None
        uuid = json.loads(local_path(pointer).read_bytes())["table-uuid"]
        group.kind.vanish(group.victim, attic)
        deployed.warden.abandon(uuid, "dropped on purpose")
    assert refused(deployed, lake) == set()
