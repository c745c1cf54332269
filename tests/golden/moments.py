"""Moments of the lake's life: each is made from an earlier one, by the worker itself."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from lakewarden.model.actor import Actor, Trigger
from lakewarden.model.errors import FrozenError
from lakewarden.warden import Warden
from tests.golden.faults import after_first_batch
from tests.golden.lake import GoldenLake

FIRST = ("orphan-cleanup", "snapshot-expiry", "partition-expiry", "manifest-rewrite")
"""Jobs that find something to do in the new lake."""
SECOND = ("tier-handoff", "physical-deletion")
"""Jobs that need what expiry did."""
ANA = Actor("ana", "night-1", Trigger.MANUAL)
SCHEDULE = Actor("cron", "night-1", Trigger.SCHEDULE, "OPS-7")


def planned(lake: GoldenLake) -> None:
    """Every job that finds something has its plan, and orphan cleanup one of each kind."""
    lake.at("new")
    with lake.warden() as warden:
        for job in FIRST:
            plan(lake, warden, job, job)
        plan(lake, warden, "nothing", "orphan-cleanup", "lake.web.*")
        plan(lake, warden, "refused", "orphan-cleanup", "lake.finance.*")
    braked = {"LAKEWARDEN_ORPHAN_CLEANUP__MAX_ORPHAN_SHARE": "0.05"}
    plan_with(lake, braked, "braked", "lake.sales.*")
    plan_with(lake, {"LAKEWARDEN_ORPHAN_CLEANUP__DELETE_MODE": "quarantine"}, "quarantine", "lake.sales.*")


def cleaned(lake: GoldenLake) -> None:
    """The orphans are gone."""
    lake.at("planned")
    with lake.warden() as warden:
        lake.names["run"] = warden.apply(lake.names["orphan-cleanup"], actor=ANA).run_id
    lake.later(minutes=5)


def quarantined(lake: GoldenLake) -> None:
    """The orphans of two tables lie in the trash."""
    lake.at("planned")
    with lake.warden() as warden:
        lake.names["run"] = warden.apply(lake.names["quarantine"], actor=ANA).run_id
    lake.later(minutes=5)


def stopped(lake: GoldenLake) -> None:
    """Somebody froze the deployment in the middle of an apply, and unfroze it."""
    lake.at("planned")
    with lake.warden() as warden, pytest.MonkeyPatch.context() as patch:
        after_first_batch(patch, lambda: warden.freeze(ANA, "incident 12"))
        with pytest.raises(FrozenError):
            warden.apply(lake.names["orphan-cleanup"], actor=ANA)
        lake.names["run"] = warden.runs()[0]["run_id"]
        warden.unfreeze(ANA)
    lake.later(minutes=5)


def released(lake: GoldenLake) -> None:
    """Snapshots have expired two days ago, and what comes after them is planned."""
    lake.at("planned")
    with lake.warden() as warden:
        lake.names["run"] = warden.apply(lake.names["snapshot-expiry"], actor=ANA).run_id
    lake.later(days=2)
    with lake.warden() as warden:
        for job in SECOND:
            plan(lake, warden, job, job)


def busy(lake: GoldenLake) -> None:
    """A night of every kind of run, some hours ago: done, planned, quarantined and restored, stopped."""
    lake.at("planned")
    with lake.warden() as warden:
        for name in ("partition-expiry", "snapshot-expiry"):
            lake.names[f"run of {name}"] = warden.apply(lake.names[name], actor=SCHEDULE).run_id
            lake.later(minutes=10)
        lake.names["run of quarantine"] = warden.apply(lake.names["quarantine"], actor=ANA).run_id
        lake.later(minutes=10)
        lake.names["restore"] = warden.restore(lake.names["run of quarantine"], ANA).run_id
        lake.later(minutes=10)
        lake.names["dry run"] = warden.run("orphan-cleanup", select=["stream.*"], actor=SCHEDULE).run_id
        lake.later(days=2)
        for job in SECOND:
            plan(lake, warden, job, job)
            if job == "tier-handoff":
                lake.names[f"run of {job}"] = warden.apply(lake.names[job], actor=SCHEDULE).run_id
                lake.later(minutes=10)
        with pytest.MonkeyPatch.context() as patch:
            after_first_batch(patch, lambda: warden.freeze(ANA, "incident 12"))
            with pytest.raises(FrozenError):
                warden.apply(lake.names["physical-deletion"], actor=SCHEDULE)
        lake.names["stopped"] = warden.runs()[0]["run_id"]
        warden.unfreeze(ANA)
    lake.later(hours=3)


def plan(lake: GoldenLake, warden: Warden, name: str, job: str, *select: str) -> None:
    """A plan below the state location, so that it is set back with it. No two plans are of one moment: the newest is looked for."""
    lake.names[name] = warden.plan(job, select=select, out=f"{lake.base}/state/my-plans/{name}", actor=ANA).path
    lake.later(minutes=1)


def plan_with(lake: GoldenLake, environment: dict[str, str], name: str, *select: str) -> None:
    """A plan of orphan cleanup, by other settings."""
    with pytest.MonkeyPatch.context() as patch:
        for key, value in environment.items():
            patch.setitem(os.environ, key, value)
        with lake.warden() as warden:
            plan(lake, warden, name, "orphan-cleanup", *select)


_ALL = (planned, cleaned, quarantined, stopped, released, busy)
MOMENTS: dict[str, Callable[[GoldenLake], None]] = {made.__name__: made for made in _ALL}
