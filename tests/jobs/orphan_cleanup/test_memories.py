"""What the ledger remembers: earlier sightings, files an expiry released, writers at work."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from lakewarden.model.actor import Trigger
from tests.jobs.orphan_cleanup.site import Site, plant
from tests.support.deployments import TurnedClock
from tests.support.lakes import local_path
from tests.support.ledger import PendingFile, release

SOON = timedelta(minutes=4)


def test_a_scheduled_plan_needs_to_see_a_file_twice_a_margin_apart(site: Site) -> None:
    """A clock may be five minutes off; the margin is an hour, so the first plan is dated an hour back by its database."""
    site.sections["orphan_cleanup"]["confirmation_margin_hours"] = 0
    table = site.add("m.t")
    first = plant(table, "data/{}.parquet")
    site.old()
    earlier = site.plan(trigger=Trigger.SCHEDULE, clock=TurnedClock(-SOON))
    assert earlier.judged("unconfirmed") == set(first)
    assert not earlier.orphans()
    second = plant(table, "data/{}.parquet")

    site.sections["orphan_cleanup"]["confirmation_margin_hours"] = 1
    too_soon = site.plan(trigger=Trigger.SCHEDULE)
    assert too_soon.judged("unconfirmed") == {*first, *second}

    site.sections["orphan_cleanup"]["confirmation_margin_hours"] = 0
    seen = site.plan(trigger=Trigger.SCHEDULE, clock=TurnedClock(SOON))
    assert seen.orphans() == {*first, *second}
    assert site.plan().orphans() == {*first, *second}, "a person needs no second sighting"


def test_each_table_asks_for_as_many_sightings_as_its_policy_says(site: Site) -> None:
    site.sections["orphan_cleanup"] |= {"confirmation_margin_hours": 0, "confirmations": 2}
    strict = {"lakewarden.orphan_cleanup.confirmations": "3"}
    tables = [site.add("m.twice"), site.add("m.thrice", properties=strict)]
    two, three = (plant(table, "data/{}.parquet")[0] for table in tables)
    site.old()
    first, second = (site.plan(trigger=Trigger.SCHEDULE, clock=TurnedClock(-SOON / n)) for n in (1, 2))
    assert (first.orphans(), second.orphans()) == (set(), {two})
    late = plant(tables[1], "data/{}.parquet")[0]
    third = site.plan(trigger=Trigger.SCHEDULE)
    assert (third.orphans(), third.judged("unconfirmed")) == ({two, three}, {late})

    for path in local_path(second.path).glob("files/*"):
        path.unlink()
    after = site.plan(trigger=Trigger.SCHEDULE, clock=TurnedClock(SOON))
    assert after.orphans() == {two}, "a plan that has lost its files confirms nothing"


def test_tables_that_swap_their_names_do_not_swap_what_they_ask_for(site: Site) -> None:
    site.sections["orphan_cleanup"] |= {"confirmation_margin_hours": 0, "confirmations": 2}
    table = site.add("m.lenient")
    strict = site.add("m.strict")
    site.policies["lake.m.strict"] = {"orphan_cleanup": {"confirmations": 3}}
    one, other = (plant(where, "data/{}.parquet")[0] for where in (table, strict))
    site.old()
    assert not site.plan(trigger=Trigger.SCHEDULE, clock=TurnedClock(-SOON)).orphans()
    for old, new in (("m.lenient", "m.away"), ("m.strict", "m.lenient"), ("m.away", "m.strict")):
        site.catalog.rename_table(old, new)
    second = site.plan(trigger=Trigger.SCHEDULE)
    assert (second.orphans(), second.judged("unconfirmed")) == ({other}, {one})
    assert site.plan(trigger=Trigger.SCHEDULE, clock=TurnedClock(SOON)).orphans() == {one, other}


def test_files_that_an_expiry_released_and_files_of_a_writer_at_work_are_left_alone(site: Site) -> None:
    site.sections["orphan_cleanup"]["grace_period_hours"] = 24
    table = site.add("m.t")
    site.add("m.t_v2")
    released, written, orphan = plant(table, "data/{}.parquet", "data/{}.parquet", "data/{}.parquet")
    site.old()
    other = plant(site.catalog.load_table("m.t_v2"), "data/{}.parquet")[0]
    warden = site.another()
    now = datetime.now(UTC)
    pending = PendingFile("run-1", "lake.m.t", f"file://{released}", 64, now)
    release(warden._deployment.ledger, [pending])
    with warden.heartbeat("lake.m.t", writer="flink-1", prefix=f"file:{written.parent}"):
        fresh = plant(table, "data/{}.parquet", age=timedelta(hours=1))[0]
        seen = site.plan(warden=warden)
        assert seen.judged("pending") == {released}
        assert seen.judged("too_new") == {fresh}
        assert seen.orphans() == {written, orphan, other}, "a heartbeat covers what its writer began since"

        began_long_ago = now - timedelta(days=60)
        beat = warden._deployment.ledger.heartbeats.live(now)[0]
        warden._deployment.ledger.heartbeats.beat(
            type(beat)(beat.writer, beat.table, beat.prefix, began_long_ago, now, 300)
        )
        seen = site.plan(warden=warden)
        assert seen.judged("in_flight") == {written, orphan}
        assert seen.judged("pending") == {released}
        assert seen.orphans() == {other}

        # The writer was cut off from the state hours ago, and never said that it was done.
        silent = replace(beat, since=began_long_ago, beat_at=now - timedelta(hours=20))
        warden._deployment.ledger.heartbeats.beat(silent)
        seen = site.plan(warden=warden)
        assert seen.judged("in_flight") == {written, orphan}
        assert {row["reason"] for row in seen.rows if row["verdict"] == "in_flight"} == {
            "writer flink-1 fell silent, and may go on"
        }
        warden._deployment.ledger.heartbeats.beat(replace(silent, beat_at=now - timedelta(hours=25)))
        assert site.plan(warden=warden).orphans() == {written, orphan, other}
    assert local_path(table.location()).is_dir()
    assert site.plan(warden=warden).orphans() == {written, orphan, other}
