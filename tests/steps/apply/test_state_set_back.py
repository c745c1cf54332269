"""A state database that goes back in time in the middle of a run: a failover to a standby that was behind, say.

What the run changed stands, and what the database knew of it is gone. Released files that nobody knows would be orphans.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest

from lakewarden.formats.iceberg.commit.versions import SqlVersions
from lakewarden.jobs.registry import JOBS
from lakewarden.ledger.pending import Pending
from lakewarden.ledger.runs import Runs
from lakewarden.model.errors import LostRefError, StateBehindError, StateError
from lakewarden.model.run import RunStatus
from tests.jobs.snapshot_expiry.expiry_site import DELETION, EXPIRY, ORPHANS, Site, snapshot_ids
from tests.jobs.test_night_in_doubt import overwritten
from tests.steps.apply.test_crash import Crash
from tests.support.lakes import local_path

pytestmark = pytest.mark.usefixtures("spark")


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with Site.on_sqlite(tmp_path) as site:
        site.catalog().create_namespace("db")
        yield site


class Failover:
    """The state database as it was at one moment, and how it is put back over whatever it is by then."""

    def __init__(self, site: Site) -> None:
        self._path = str(site.base / "state" / "lakewarden.db")
        self._kept: dict[str, sqlite3.Connection] = {}

    def keep(self, name: str) -> None:
        kept = self._kept[name] = sqlite3.connect(":memory:", check_same_thread=False)
        self._between(sqlite3.connect(self._path), kept)

    def bring(self, name: str) -> None:
        self._between(self._kept[name], sqlite3.connect(self._path))

    @staticmethod
    def _between(source: sqlite3.Connection, target: sqlite3.Connection) -> None:
        source.backup(target)
        for connection in (source, target):
            if connection.execute("PRAGMA database_list").fetchone()[2]:
                connection.close()


def keeping(patched: pytest.MonkeyPatch, failover: Failover, moment: str) -> None:
    """Keep the database as it is at this moment of the run that comes."""
    if moment == "before the run":
        failover.keep("old")
        return
    owner, name, after = {
        "before the release": (Pending, "add_rows", False),
        "after the release": (Pending, "add_rows", True),
        "when a table begins": (Runs, "step", False),
    }[moment]
    real = getattr(owner, name)

    def noticed(*given: object, **more: object) -> object:
        wanted = name != "step" or given[2] == "begun"
        if wanted and not after:
            failover.keep("old")
        answer = real(*given, **more)
        if wanted and after:
            failover.keep("old")
        return answer

    patched.setattr(owner, name, noticed)


@pytest.mark.parametrize("alive", [False, True], ids=["the worker dies too", "the worker goes on"])
@pytest.mark.parametrize("moment", ["before the run", "before the release", "after the release"])
def test_what_an_expiry_let_go_is_not_forgotten(
    site: Site, monkeypatch: pytest.MonkeyPatch, moment: str, alive: bool
) -> None:
    table, old = overwritten(site, "db.a")
    plan, failover, expire = site.plan(EXPIRY), Failover(site), SqlVersions.expire

    def committing(self: SqlVersions, *given: object) -> object:
        made = expire(self, *given)  # type: ignore[arg-type]
        failover.keep("newest")
        failover.bring("old")
        if alive:
            return made
        raise Crash

    with monkeypatch.context() as patched:
        keeping(patched, failover, moment)
        patched.setattr(SqlVersions, "expire", committing)
        with pytest.raises(StateError if alive else Crash):
            site.apply(plan)
    site.close()
    assert len(snapshot_ids(site.catalog().load_table("db.a"))) == 1 < len(table.snapshots())

    with pytest.raises(StateBehindError, match="nothing was done"):
        site.apply(plan)
    for job in JOBS:
        with pytest.raises(StateBehindError, match="nothing was planned"):
            site.plan(job)
    [forgotten] = site.warden.doctor()["forgotten_runs"]
    assert local_path(old[0]).exists()

    failover.bring("newest")
    site.close()
    again = site.apply(plan)
    assert (again.run_id, again.status, again.changed["snapshots"]) == (forgotten, RunStatus.DONE, 2)
    assert local_path(old[0]) in site.pending()
    assert site.plan(ORPHANS).plan.totals()["changes"].get("files", 0) == 0


def test_a_table_that_was_archived_by_a_forgotten_step_takes_nothing_back(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The database knows that the run released its files, and nothing of what came after."""
    _, old = overwritten(site, "db.a")
    plan, failover, expire = site.plan(EXPIRY), Failover(site), SqlVersions.expire

    def committing(self: SqlVersions, *given: object) -> object:
        expire(self, *given)  # type: ignore[arg-type]
        failover.bring("old")
        raise Crash

    with monkeypatch.context() as patched:
        keeping(patched, failover, "when a table begins")
        patched.setattr(SqlVersions, "expire", committing)
        with pytest.raises(Crash):
            site.apply(plan)
    site.close()

    assert site.apply(plan).changed["snapshots"] == 2
    assert local_path(old[0]) in site.pending()


@pytest.mark.parametrize("alive", [False, True], ids=["after the run", "during the run"])
def test_a_hold_that_was_forgotten_plans_no_deletion(site: Site, monkeypatch: pytest.MonkeyPatch, alive: bool) -> None:
    """Released files that stay for a lost ref would go after their delay."""
    overwritten(site, "db.a")
    plan, failover = site.plan(EXPIRY), Failover(site)
    expire, hold, step = SqlVersions.expire, Pending.hold, Runs.step

    def losing(self: SqlVersions, *given: object) -> object:
        expire(self, *given)  # type: ignore[arg-type]
        raise LostRefError("tag late is lost", {"snapshots": 2, "refs": 0})

    def keeping_before(self: Pending, *given: object) -> None:
        failover.keep("old")
        hold(self, *given)  # type: ignore[arg-type]

    def going_back(self: Runs, run_id: str, name: str, *given: object) -> None:
        step(self, run_id, name, *given)  # type: ignore[arg-type]
        if alive and name == "expired":
            failover.bring("old")

    with monkeypatch.context() as patched:
        patched.setattr(SqlVersions, "expire", losing)
        patched.setattr(Pending, "hold", keeping_before)
        patched.setattr(Runs, "step", going_back)
        with pytest.raises(StateBehindError) if alive else nullcontext():
            site.apply(plan)
    site.close()
    if alive:
        return  # the run is open, and going on with it looks at the table again
    failover.bring("old")
    with pytest.raises(StateBehindError):
        site.plan(DELETION)
