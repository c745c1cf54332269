"""What happened between the plan of an expiry and its apply: refused by now, done by others, too late, another clock."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from lakewarden.jobs.snapshot_expiry import run as expiring
from lakewarden.model.errors import PlanExpiredError
from lakewarden.model.run import RunResult, RunStatus
from tests.formats.paimon.test_expiry_crashes import Crash, crashing
from tests.jobs.snapshot_expiry.expiry_site import (
    DELETION,
    EXPIRY,
    Site,
    document_of,
    edit,
    rows_at,
    rows_of_all,
    snapshot_ids,
)
from tests.jobs.test_night_in_doubt import overwritten
from tests.support.lakes import local_path
from tests.support.ledger import due_files

pytestmark = pytest.mark.usefixtures("spark")

# What becomes of each table after the plan, as its metadata has it.
REFUSED = {
    "switched_off": {"properties": {"gc.enabled": "false"}},
    "newer": {"format-version": 4},
    "encrypted": {"encryption-keys": [{"key-id": "k"}]},
}
WHY = {"switched_off": "gc.enabled=false", "newer": "format version 4", "encrypted": "is encrypted"}
TABLES = (*REFUSED, "expired_by_an_engine", "quiet")


@dataclass(frozen=True)
class Night:
    site: Site
    result: RunResult
    before: dict[str, set[int]]
    old: dict[str, Path]

    def left(self, name: str) -> set[int]:
        """What the metadata says that the catalog points at, raw: PyIceberg does not open what it does not know."""
        [catalog] = self.site.warden._deployment.formats.values()
        [where] = [one.metadata_location for one in catalog.pointers() if one.identifier == f"lake.db.{name}"]
        return {int(snapshot["snapshot-id"]) for snapshot in json.loads(local_path(where).read_bytes())["snapshots"]}


def open_site(base: Path) -> Site:
    site = Site.on_sqlite(base)
    site.sections["physical_deletion"]["visibility_delay_hours"] = 24 * 7
    site.catalog().create_namespace("db")
    return site


@pytest.fixture(scope="module")
def night(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Night]:
    """One plan for all; by the time it is applied the machine's clock is a month behind."""
    with open_site(tmp_path_factory.mktemp("since")) as site:
        old = {name: local_path(overwritten(site, f"db.{name}")[1][0]) for name in TABLES}
        plan = site.plan(EXPIRY)
        for name, change in REFUSED.items():
            table = site.catalog().load_table(f"db.{name}")
            edit(table, document_of(table) | change)
        engine = site.catalog().load_table("db.expired_by_an_engine")
        for snapshot in engine.snapshots()[:-1]:
            engine.maintenance.expire_snapshots().by_id(snapshot.snapshot_id).commit()
            engine = engine.refresh()
        before = {name: set(table.detail["steps"]["snapshots"]) for name, table in planned(plan).items()}
        site.later(-24 * 30)
        result = site.apply(plan)
        site.later(24 * 30)
        yield Night(site, result, before, old)


def planned(seen: Any) -> dict[str, Any]:
    return {name: seen.table(f"lake.db.{name}") for name in TABLES}


@pytest.mark.parametrize("name", REFUSED)
def test_a_table_that_would_be_refused_by_now_is_left_alone(night: Night, name: str) -> None:
    [failed] = [failed for failed in night.result.failed if failed.uri == f"lake.db.{name}"]
    assert failed.code == "LW-PLAN-005"
    assert WHY[name] in failed.message
    assert night.before[name] <= night.left(name)
    assert night.old[name] not in night.site.pending()


def test_the_run_counts_only_what_it_took(night: Night) -> None:
    assert night.result.status is RunStatus.PARTIAL
    assert not night.before["expired_by_an_engine"] & night.left("expired_by_an_engine")
    assert not night.before["quiet"] & night.left("quiet")
    assert night.result.changed == {"snapshots": len(night.before["quiet"]), "refs": 0}


def test_a_clock_that_is_behind_makes_no_wait_shorter(night: Night) -> None:
    waiting = night.site.pending()
    assert night.old["quiet"] in waiting
    due = night.site.clock.now() - timedelta(days=6)
    assert "lake.db.quiet" not in due_files(night.site.warden._deployment.ledger, due)


def test_a_plan_that_expired_while_its_run_lay_open_is_not_gone_on_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_site(tmp_path) as site:
        table, _ = overwritten(site, "db.a")
        rows, before = rows_at(table), snapshot_ids(table)
        plan = site.plan(EXPIRY)
        with monkeypatch.context() as patched:
            crashing(patched, expiring.Run, "_expire", after=False, on_call=1)
            with pytest.raises(Crash):
                site.apply(plan)
        site.close()
        site.later(25)

        # Nobody knows whether a process that died had committed a moment before.
        with pytest.raises(PlanExpiredError, match="nothing more was changed"):
            site.apply(plan)

        [run] = site.warden.runs()
        assert (run["status"], run["result"]["changed"]) == (RunStatus.FAILED, {"snapshots": 0})
        failed = [(failure["uri"], failure["code"]) for failure in run["result"]["failed"]]
        assert failed == [("lake.db.a", "LW-PLAN-003")]
        table = table.refresh()
        assert (snapshot_ids(table), rows_at(table)) == (before, rows)
        with pytest.raises(PlanExpiredError):
            site.apply(plan)
        # What was released is needed still, and deletion sees that.
        site.later(24 * 8)
        assert site.run(DELETION).deleted.files == 0
        assert rows_of_all(table).keys() == before


def test_a_run_that_was_over_is_closed_whenever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only its end was not on record: nothing is left to do, so nothing is too late."""
    with open_site(tmp_path) as site:
        table, _ = overwritten(site, "db.a")
        count = len(snapshot_ids(table))
        plan = site.plan(EXPIRY)
        with monkeypatch.context() as patched:
            crashing(patched, site.warden._deployment.ledger.runs, "finish", after=False, on_call=1)
            with pytest.raises(Crash):
                site.apply(plan)
        site.close()
        site.later(25)
        result = site.apply(plan)
        assert (result.status, result.failed) == (RunStatus.DONE, ())
        assert result.changed["snapshots"] == count - 1
