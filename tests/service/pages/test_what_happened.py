"""What happened is told in words, the newest of it always; and what pages know of the past is not lost among newer things."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

from lakewarden.ledger.request_events import Event
from lakewarden.ledger.requests import Ended
from lakewarden.ledger.schedules import Schedule
from lakewarden.model.drill import Drill, DrillPlace, DrillResult, DrillStatus
from lakewarden.model.plan import Plan, TablePlan, Tally
from lakewarden.model.service import RequestKind, RequestStatus
from lakewarden.service.html.steps import steps_of
from lakewarden.service.service import Service
from tests.service.pages.fleet import ADA, fill, fleet_rows
from tests.support.service import client_of, service_in

TABLE = "prod.tenant_00.events_00000"
NOW = datetime.fromisoformat("2026-11-18T12:00:00+00:00")


def event(number: int, name: str, **detail: object) -> Event:
    return Event(number, "q", NOW + timedelta(seconds=number), name, detail or None)


def test_a_stage_that_tells_how_far_it_is_is_one_step() -> None:
    found = steps_of([
        event(0, "taken up", by="host-1/7", takeovers=0),
        event(1, "progress", stage="load tables", done=0, total=0),
        event(3, "progress", stage="delete", done=2, total=20),
        event(4, "progress", stage="delete", done=20, total=20),
        event(9, "failed", error={"code": "LW-STORE-001", "message": "no answer", "hint": "Try again."}),
    ])  # fmt: skip
    assert [(step.name, step.words, step.took) for step in found] == [
        ("taken up", "by host-1/7", "1 second"),
        ("load tables", "", "2 seconds"),
        ("delete", "20 of 20", "6 seconds"),
        ("failed", "LW-STORE-001", ""),
    ]


def test_no_step_shows_a_document() -> None:
    told = [
        event(0, "taken up", by="host-1/8", takeovers=2),
        event(1, "planned", plan="abc", changes={"files": 20, "refs": 0}),
        event(2, "planned", plan="abc", changes={}),
        event(3, "approved", by="ana", at="2026-11-18T12:00:00+00:00"),
    ]
    noted = [{"name": "expired", "at": NOW.isoformat(), "detail": {"table": "a.b", "changes": {"snapshots": 1200}}}]
    assert [step.words for step in steps_of(told, noted)] == [
        "by host-1/8, after 2 runners died over it",
        "table: a.b, changes: 1,200 snapshots",
        "20 files",
        "nothing to do",
        "by ana",
    ]


def test_a_begun_run_tells_its_terms_and_not_what_the_page_says_already() -> None:
    lineage = {"lakewarden.job": "orphan-cleanup", "writer.id": "host-1"}
    terms = {"overrides": ["new_root"], "unattended": True, "left_out": ["prod.a.b", "prod.a.c"], "night": None}
    noted = [
        {"name": "started", "at": NOW.isoformat(), "detail": {"by": "ana", "lineage": lineage, **terms}},
        {"name": "started", "at": NOW.isoformat(), "detail": {"by": "ana", "lineage": lineage, "overrides": []}},
        {"name": "handed", "at": NOW.isoformat(), "detail": {"to": {"place": "s3://cold/t", "files": 1200}}},
    ]
    assert [step.words for step in steps_of([], noted)] == [
        "by ana, as the policies say; 2 tables left as they are; brakes lifted: new_root",
        "by ana",
        "to: place s3://cold/t, 1,200 files",
    ]


def test_of_a_long_request_the_newest_steps_are_shown(tmp_path: Path) -> None:
    service = service_in(tmp_path)
    requests = service.ledger.requests
    requests.create("q", RequestKind.PLAN, ADA, job="compaction")
    for number in range(520):
        requests.event("q", f"step-{number}")
    text = client_of(service).get("/requests/q").text
    assert "step-519" in text
    assert "step-0<" not in text
    service.ledger.close()


def test_what_was_counted_is_still_shown_after_many_newer_requests(tmp_path: Path) -> None:
    service = service_in(tmp_path)
    requests, now = service.ledger.requests, service.clock.now()
    service.ledger.fleet.replace(fleet_rows(1, now), now)
    classes = [{"small": True, "recent": True, "tally": {"files": 7, "bytes": 7 << 20}}]
    requests.create("counted", RequestKind.FORECAST, ADA, arguments={"select": [TABLE]})
    requests.claim("host-1")
    told = {"tables": [], "classes": {TABLE: classes}}
    requests.finish("counted", "host-1", Ended(RequestStatus.DONE, result=told))
    for number in range(210):
        requests.create(f"look-{number}", RequestKind.OBSERVE, ADA, job="observe")
    assert "below 32 MiB, written in 30 days" in client_of(service).get(f"/tables/{TABLE}").text
    service.ledger.close()


def test_what_is_at_work_is_shown_however_much_waits_behind_it(tmp_path: Path) -> None:
    service = service_in(tmp_path)
    requests = service.ledger.requests
    requests.create("at-work", RequestKind.PLAN, ADA, job="compaction")
    requests.claim("host-1")
    for number in range(30):
        requests.create(f"look-{number:02}", RequestKind.OBSERVE, ADA, job="observe")
    for path in ("/", "/runs"):
        text = client_of(service).get(path).text
        assert text.index("/requests/at-work") < text.index("/requests/look-"), path
    assert "25 more" in client_of(service).get("/").text
    service.ledger.close()


def test_the_schedule_tells_windows_and_what_never_ran(tmp_path: Path) -> None:
    service = service_in(tmp_path, '[service]\nwindows = { orphan_cleanup = "22:00-04:00" }\n')
    now = service.clock.now()
    # As the schedule writes it when it first sees a job: nothing has run at that moment.
    service.ledger.schedules.put(Schedule("orphan-cleanup", now + timedelta(hours=3), "cron 0 6 * * *", last_due=now))
    text = client_of(service).get("/schedule").text
    assert "within 22:00-04:00" in text
    assert text.index("orphan-cleanup") < text.index("Only when somebody asks")
    assert "not yet" in text.partition("Only when somebody asks")[0]
    service.ledger.close()


def test_branches_are_shown_with_what_the_newest_plan_says_of_them(tmp_path: Path) -> None:
    service = service_in(tmp_path)
    now = service.clock.now()
    service.ledger.fleet.replace(fleet_rows(1, now), now)
    line = {
        "name": "experiment",
        "state": "broken",
        "states": ["broken"],
        "reason": "snap-7.avro is gone",
        "goes": True,
    }
    detail = {"states": {"broken": 1}, "branches": [line], "seen": {"experiment": "1009"}}
    table = TablePlan(TABLE, "u", "iceberg", "s3://lake/m.json", changes={"refs": 1}, detail=detail)
    plan = Plan("stale-branches", now, now + timedelta(days=1), now, ADA, (table,), (), ()).sealed()
    service.ledger.plans.save(plan, "s3://lake/plan/")
    text = client_of(service).get("/branches").text
    assert "snap-7.avro is gone" in text
    assert "would be removed" in text
    assert plan.plan_id[:12] in text
    service.ledger.close()


def test_a_plan_with_nothing_to_do_stays_empty_when_it_expires(tmp_path: Path) -> None:
    service = service_in(tmp_path)
    then = service.clock.now() - timedelta(days=3)
    table = TablePlan(TABLE, "u", "iceberg", "s3://lake/m.json", changes={"files": 0})
    plan = Plan("orphan-cleanup", then, then + timedelta(days=1), then, ADA, (table,), (), ()).sealed()
    service.ledger.plans.save(plan, "s3://lake/plan/")
    text = client_of(service).get("/plans").text
    assert "empty" in text
    assert "expired" not in text.partition("<tbody>")[2]
    service.ledger.close()


def test_the_audit_page_begins_with_what_was_taken_away_and_decided(tmp_path: Path) -> None:
    service = service_in(tmp_path)
    ids = fill(service, tmp_path / "plans", 3)
    text = client_of(service).get("/audit").text
    assert "40 files deleted (40.0 MiB)" in text
    assert "ada, ticket OPS-7" in text.replace("<bdi>", "").replace("</bdi>", "")
    assert "Nobody has approved or rejected a plan yet." in text
    told = client_of(service).get("/audit", params={"uri": ids["uri"]}).text
    assert "can be taken back until" in told
    service.ledger.close()


def brought_back(service: Service, run_id: str, status: str, failed: Sequence[str] = ()) -> None:
    """A run that restored what another had put into quarantine, but for some files."""
    told = [{"uri": uri, "code": "LW-RESTORE-001", "message": "the place is taken"} for uri in failed]
    nothing = {"files": 0, "bytes": 0}
    result = {
        "run_id": f"back-{status}", "plan_id": "", "job": "orphan-cleanup", "status": status, "failed": told,
        "changed": {"restored": 40 - len(failed)}, "deleted": nothing, "quarantined": nothing, "hidden": nothing,
        "absent": 0, "kept": {},
    }  # fmt: skip
    runs = service.ledger.runs
    runs.start(f"back-{status}", "orphan-cleanup", None, replace(ADA, operator="bob"))
    runs.step(run_id, "restored", {"by": f"back-{status}", "files": 40 - len(failed)})
    runs.finish(f"back-{status}", status, result)


def test_what_was_brought_back_lies_in_quarantine_no_more(tmp_path: Path) -> None:
    service = service_in(tmp_path)
    ids = fill(service, tmp_path / "plans", 3)
    client = client_of(service)
    other = ids["uri"].replace("00003-", "00000-")

    def told(uri: str) -> str:
        return client.get("/audit", params={"uri": uri}).text.replace("<bdi>", "").replace("</bdi>", "")

    assert "can be brought back until" in client.get("/runs/run-used").text
    assert "can be taken back until" in told(ids["uri"])
    brought_back(service, "run-used", "partial", [other])
    page = client.get("/runs/run-used").text
    assert "1 file can be brought back until" in page
    assert "/runs/back-partial" in page
    assert "can be taken back until" in told(other)
    back = told(ids["uri"])
    assert "can be taken back until" not in back
    assert back.index("restored") < back.index("quarantined"), "the newest first"
    assert "bob" in back
    brought_back(service, "run-used", "done")
    page = client.get("/runs/run-used").text
    assert "can be brought back until" not in page
    assert "/runs/back-done" in page
    assert "can be taken back until" not in told(other)
    service.ledger.close()


def test_a_reason_leads_to_the_plan_that_mends_it(tmp_path: Path) -> None:
    service = service_in(tmp_path)
    ids = fill(service, tmp_path / "plans", 3)
    now = service.clock.now()
    row = next(fleet_rows(1, now))
    reasons = [{"code": "orphans", "message": "5% or more of its bytes are orphans", "hint": "Apply it."}]
    row = replace(row, health="attention", codes=["orphans"], detail={**row.detail, "reasons": reasons})
    service.ledger.fleet.replace([row], now)
    why = (
        client_of(service)
        .get(f"/tables/{TABLE}")
        .text.partition("Why somebody should look")[2]
        .partition("</section>")[0]
    )
    assert f'href="/plans/{ids["waiting"]}"' in why
    service.ledger.close()


def test_the_last_restore_drill_is_on_the_schedule_and_on_its_own_page(tmp_path: Path) -> None:
    service = service_in(tmp_path)
    requests, client = service.ledger.requests, client_of(service)
    assert "None was made yet." in client.get("/schedule").text
    requests.create("drill", RequestKind.RESTORE_DRILL, ADA, job="restore-drill")
    requests.claim("host-1")
    back = Drill(DrillPlace.QUARANTINE, DrillStatus.PROVEN, "s3://lake/t/data/1.parquet", 1, 1 << 20)
    lost = Drill(DrillPlace.COLD, DrillStatus.FAILED, "4727", error={"code": "LW-STORE-001", "message": "no answer"})
    told = DrillResult((back, lost)).as_json()
    requests.finish("drill", "host-1", Ended(RequestStatus.FAILED, result=told))
    for path in ("/schedule", "/requests/drill"):
        text = client.get(path).text
        assert "came back" in text, path
        assert "1 file, 1.0 MiB" in text, path
        assert 'href="/errors/LW-STORE-001"' in text, path
    service.ledger.close()


def test_what_could_be_reclaimed_is_told_by_where_it_comes_from(tmp_path: Path) -> None:
    """What expiry released is part of the sum, and no plan."""
    service = service_in(tmp_path)
    now = service.clock.now()
    row = next(fleet_rows(1, now))
    released = {**row.detail, "pending_bytes": 3 << 20}
    share = {
        "none planned": (None, "released by expiry"),
        "planned": (0.25, "25% of its bytes are orphans; 3.0 MiB released by expiry"),
    }
    for name, (orphans, words) in share.items():
        seen = replace(row, orphan_share=orphans, reclaimable_bytes=3 << 20, detail=released)
        service.ledger.fleet.replace([seen], now)
        assert f'<span class="quiet">{words}</span>' in client_of(service).get(f"/tables/{TABLE}").text, name
    text = client_of(service).get("/").text
    assert "3.0 MiB" in text
    assert "planned orphans, and what expiry released" in text
    service.ledger.close()


def test_values_of_a_policy_are_told_as_they_are_written(tmp_path: Path) -> None:
    policy = '[snapshot_expiry]\nkeep = ["trial", "audit-*"]\nretain_hours = 2400\n'
    service = service_in(tmp_path, policy)
    service.ledger.fleet.replace(fleet_rows(1, service.clock.now()), service.clock.now())
    text = client_of(service).get(f"/tables/{TABLE}").text
    assert "<td>trial, audit-*<" in text
    assert "<td>2400<" in text
    service.ledger.close()


def test_who_applies_a_plan_is_told_with_its_job(tmp_path: Path) -> None:
    service = service_in(tmp_path)
    service.ledger.requests.create("q", RequestKind.APPLY, ADA, job="compaction", arguments={"plan": "file:///p/"})
    assert "apply a plan of compaction" in client_of(service).get("/").text
    service.ledger.close()


def test_expiry_releases_files_and_changes_none(tmp_path: Path) -> None:
    service = service_in(tmp_path)
    now = service.clock.now()
    table = TablePlan(
        TABLE, "u", "iceberg", "s3://lake/m.json", verdicts={"pending": Tally(3, 3 << 20)}, changes={"snapshots": 2}
    )
    for job, words in (("snapshot-expiry", "would release"), ("physical-deletion", "would change")):
        plan = Plan(job, now, now + timedelta(days=1), now - timedelta(days=7), ADA, (table,), (), ()).sealed()
        service.ledger.plans.save(plan, f"file://{tmp_path}/{job}/")
        assert f"what the plan {words}" in client_of(service).get(f"/plans/{plan.plan_id}").text, job
    service.ledger.close()
