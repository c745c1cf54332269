"""How old a file must be: by the fleet's setting, by overrides and by the table's own word. One lake, one plan."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from lakewarden.model.errors import UnsafeGraceError
from tests.jobs.orphan_cleanup.site import Site, plant
from tests.support.deployments import Seen, TurnedClock
from tests.support.lakes import local_path

GRACE = "lakewarden.orphan_cleanup.grace_period_hours"


@pytest.fixture(scope="module")
def lake(spark: object, tmp_path_factory: pytest.TempPathFactory) -> Site:
    site = Site(tmp_path_factory.mktemp("grace"))
    site.sections["orphan_cleanup"]["grace_period_hours"] = 48
    site.policies = {
        "lake.slow.*": {"orphan_cleanup": {"grace_period_hours": 240}},
        "lake.slow.capped": {"orphan_cleanup": {"max_orphans": 3}},
    }
    site.add("g.plain")
    site.add("g.own", properties={GRACE: "120"})
    site.add("slow.own", properties={GRACE: "72"})
    site.add("slow.capped")
    site.add("slow.strict", properties={"lakewarden.orphan_cleanup.max_orphan_share": "0.04"})
    site.old()
    for hours in (1, 47, 49, 71, 73, 119, 121, 239, 241):
        for name in ("g.plain", "g.own", "slow.own", "slow.capped", "slow.strict"):
            plant(site.catalog.load_table(name), f"data/{hours}.parquet", age=timedelta(hours=hours))
    return site


@pytest.fixture(scope="module")
def seen(lake: Site) -> Seen:
    return lake.plan()


def hours(found: set[Path]) -> set[int]:
    return {int(path.stem) for path in found}


@pytest.mark.parametrize(("name", "grace"), [("g.plain", 48), ("g.own", 120), ("slow.own", 72), ("slow.capped", 240)])
def test_only_files_older_than_their_table_s_grace_are_orphans(seen: Seen, name: str, grace: int) -> None:
    """Default < section < override < table property, each table by its own."""
    planted = {1, 47, 49, 71, 73, 119, 121, 239, 241}
    assert seen.table(name).policy["grace_period_hours"] == grace
    assert hours(seen.orphans(name)) == {h for h in planted if h > grace}
    assert hours(seen.judged("too_new", name)) == {h for h in planted if h < grace}


def test_a_table_property_sets_other_keys_too(seen: Seen) -> None:
    assert seen.refusal("slow.strict") == "LW-BRAKE-004"
    assert seen.table("slow.capped").policy["max_orphans"] == 3


def test_a_fleet_below_the_floor_is_not_planned(lake: Site, tmp_path: Path) -> None:
    lake.sections["orphan_cleanup"]["grace_period_hours"] = 23
    try:
        with pytest.raises(UnsafeGraceError, match="floor of 24"):
            lake.plan()
    finally:
        lake.sections["orphan_cleanup"]["grace_period_hours"] = 48


def test_a_clock_that_is_ten_minutes_off_refuses_everything(lake: Site) -> None:
    """Ages are judged by the store's clock: ours, wrong, would make files older than they are."""
    for by in (timedelta(minutes=10), timedelta(minutes=-10)):
        seen = lake.plan(clock=TurnedClock(by))
        assert {seen.refusal(table.identifier) for table in seen.plan.tables} == {"LW-STORE-002"}
        assert seen.rows == []
    assert lake.plan("lake.g.plain", clock=TurnedClock(timedelta(minutes=4))).refusal("g.plain") is None


def test_the_file_of_the_table_s_own_age_is_kept_at_its_place(lake: Site, seen: Seen) -> None:
    root = local_path(lake.catalog.load_table("g.plain").location())
    assert seen.verdict(root / "data/47.parquet") == "too_new"
    assert seen.verdict(root / "data/49.parquet") == "orphan"
