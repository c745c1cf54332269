"""Writers, taggers and branchers are at work while expiry and deletion go round: nothing that they made is lost."""

from __future__ import annotations

import os
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.jobs.snapshot_expiry.expiry_crowd import Crowd
from tests.jobs.snapshot_expiry.expiry_pen import BY_PART, SCHEMA, arrow
from tests.jobs.snapshot_expiry.expiry_site import (
    DELETION,
    EXPIRY,
    Site,
    files_below,
    needed_by,
    rows_at,
    sqlite_properties,
)

pytestmark = [pytest.mark.usefixtures("spark"), pytest.mark.filterwarnings("ignore:Delete operation did not match")]

SECONDS = float(os.environ.get("LAKEWARDEN_CROWD_SECONDS", "30"))
TABLES = ("db.orders", "db.clicks")
OUTDATED = "LW-PLAN-005"


def expire_in_a_crowd(base: Path, seconds: float, seed: int = 1) -> Counter[str]:
    """Everybody at work for so long; how often what was done."""
    properties = sqlite_properties(base)
    properties["uri"] += "?timeout=30"
    with Site(base, {"lake": properties}) as site:
        site.sections["snapshot_expiry"] = {"retain_hours": 0}
        site.sections["physical_deletion"] = {"visibility_delay_hours": 0, "rate_limit_ms": 0}
        catalog = site.catalog()
        catalog.create_namespace("db")
        crowds = []
        for number, name in enumerate(TABLES):
            table = catalog.create_table(name, SCHEMA, partition_spec=BY_PART)
            table.append(arrow(0))
            crowds.append(Crowd(site.catalog, name, seed + number, main=rows_at(table)))
        uuids = list(site.uuids())
        for crowd in crowds:
            crowd.start()
        done: Counter[str] = Counter()
        try:
            end = time.monotonic() + seconds
            while time.monotonic() < end and not any(crowd.stop.is_set() for crowd in crowds):
                _once(site, uuids, done)
        finally:
            for crowd in crowds:
                crowd.end()
        _once(site, uuids, done)
        for crowd in crowds:
            crowd.check()
            done.update(crowd.deeds)
        assert site.warden.audit_verify()["ok"]
        left = files_below(base / "warehouse")
        assert {path for name in TABLES for path in needed_by(catalog.load_table(name))} <= left
    return done


def _once(site: Site, uuids: list[str], done: Counter[str]) -> None:
    expiry = site.apply(site.plan(EXPIRY))
    # Too many commits of others is all that may stop a table.
    assert {failed.code for failed in expiry.failed} <= {OUTDATED}
    deletion = site.apply(site.plan(DELETION, unsafe_short_grace=uuids))
    assert (deletion.status, deletion.failed) == ("done", ())
    done.update(rounds=1, expired=expiry.changed["snapshots"], deleted=deletion.deleted.files, absent=deletion.absent)


@pytest.mark.timeout(300)
def test_nothing_is_lost_in_a_crowd(tmp_path: Path) -> None:
    done = expire_in_a_crowd(tmp_path, SECONDS)
    assert done["rounds"] >= 2
    assert min(done[deed] for deed in ("write", "tag", "branch")) >= 5
    assert done["expired"] > 0
    assert done["deleted"] > 0
    assert done["absent"] == 0


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_ten_minutes_in_a_crowd(tmp_path: Path) -> None:
    done = expire_in_a_crowd(tmp_path, 600, seed=7)
    assert done["expired"] > 100
    assert done["drop"] > 10
