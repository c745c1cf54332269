"""Where history is on, expiry lets nothing go that the archive does not hold safely: by its plan, and when it is applied."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakewarden.model.history import NOT_YET
from tests.jobs.history.archived import EXPIRY, HISTORY, ROWS, Site, committed_again, ids

pytestmark = pytest.mark.usefixtures("spark")


def reasons(site: Site, table: str) -> set[str]:
    """Why snapshots of a table stay."""
    return {line["reason"] for line in site.plan(EXPIRY).table(table).detail["keep"]}


def test_what_is_not_archived_stays_and_is_named(tmp_path: Path) -> None:
    with Site.at(tmp_path) as site:
        table = site.iceberg("events", 3)
        site.paimon("clicks", 4)
        site.later(24)
        plan = site.plan(EXPIRY)
        assert {t.identifier: t.changes["snapshots"] for t in plan.plan.tables} == {
            "lake.db.events": 0,
            "stream.db.clicks": 0,
        }
        assert NOT_YET in {line["reason"] for line in plan.table("db.events").detail["keep"]}
        assert f"{NOT_YET}: 1" in {line["reason"] for line in plan.table("stream.db.clicks").detail["keep"]}
        site.run(HISTORY)
        assert site.run(EXPIRY).changed["snapshots"] == 5
        assert len(ids(table)) == 1
        assert len(site.keys()) == 7  # and the archive has them all


def test_staged_and_branch_only_snapshots_are_archived_before_they_go(tmp_path: Path) -> None:
    with Site.at(tmp_path) as site:
        table = site.iceberg("events", 1)
        table.manage_snapshots().create_branch(next(iter(ids(table))), "side").commit()
        table.append(ROWS, branch="side")
        table.manage_snapshots().remove_branch("side").commit()  # what it had is staged by now: no ref leads to it
        table.append(ROWS)
        site.later(24 * 10)
        assert NOT_YET in reasons(site, "db.events")
        assert len(ids(table)) == 3
        site.run(HISTORY)
        assert site.run(EXPIRY).changed["snapshots"] == 2


def test_a_damaged_archive_keeps_by_name_at_plan_and_at_apply(tmp_path: Path) -> None:
    with Site.at(tmp_path) as site:
        table = site.iceberg("events", 3)
        site.paimon("clicks", 3)
        site.run(HISTORY)
        site.later(24)
        plan = site.plan(EXPIRY)
        assert plan.plan.totals()["changes"]["snapshots"] == 4
        (file,) = site.files()
        site.path(file).write_bytes(b"rubbish")
        assert any(file.uri in reason and "is damaged" in reason for reason in reasons(site, "db.events"))
        result = site.apply(plan)
        assert result.changed["snapshots"] == 0
        assert {failed.uri for failed in result.failed} >= {"stream.db.clicks"}
        assert len(ids(table)) == 3
        site.run(HISTORY)
        assert site.run(EXPIRY).changed["snapshots"] == 4


def test_a_paimon_snapshot_that_was_committed_again_is_not_taken_for_the_archived_one(tmp_path: Path) -> None:
    with Site.at(tmp_path) as site:
        table = site.paimon("clicks", 2)
        site.run(HISTORY)
        committed_again(table, 2)
        table.write("2026-01-03")
        site.later(24)
        assert f"{NOT_YET}: 2" in reasons(site, "stream.db.clicks")
        site.run(HISTORY)
        assert site.run(EXPIRY).changed["snapshots"] == 2


def test_history_may_be_required_without_being_scheduled_and_else_is_not_asked(tmp_path: Path) -> None:
    with Site.at(tmp_path) as site:
        site.sections["history"] = {"required": True}
        site.iceberg("events", 3)
        site.later(24)
        assert NOT_YET in reasons(site, "db.events")
        site.close()
        site.sections["history"] = {}
        assert site.run(EXPIRY).changed["snapshots"] == 2


def test_history_that_was_switched_on_since_the_plan_counts_at_its_apply(tmp_path: Path) -> None:
    with Site.at(tmp_path) as site:
        site.sections["history"] = {}
        table = site.iceberg("events", 3)
        site.later(24)
        plan = site.plan(EXPIRY)
        assert plan.plan.totals()["changes"]["snapshots"] == 2
        site.close()
        site.sections["history"] = {"enabled": True}
        assert site.apply(plan).changed["snapshots"] == 0
        assert len(ids(table)) == 3


def test_history_comes_before_expiry_in_a_night(tmp_path: Path) -> None:
    with Site.at(tmp_path) as site:
        site.sections["snapshot_expiry"] |= {"enabled": True, "dry_run": False}
        table = site.iceberg("events", 3)
        site.later(24)
        night = site.warden.night()
        assert [str(job.job) for job in night.jobs] == [HISTORY, EXPIRY]
        assert len(ids(table)) == 1
        assert len(site.keys()) == 3
