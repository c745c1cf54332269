"""What people do on the pages, in a real browser. The test is the runner: it takes up what the pages ask for."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from playwright.sync_api import expect

from lakewarden.ledger.requests import Ended, Request
from lakewarden.model.ports import FileOutcome, JournalFile
from lakewarden.model.service import RequestKind, RequestStatus, Role
from tests.service.pages.conftest import Open, Site
from tests.service.pages.fleet import ADA, DAMAGED, write_plan, write_run

RUNNER = "host-1/test"


def claimed(site: Site, kind: RequestKind) -> Request:
    """The newest request of a kind, taken up by this test."""
    requests = site.service.ledger.requests
    wanted = next(one for one in requests.list(limit=10) if one.kind is kind)
    while (found := requests.claim(RUNNER)) is not None and found.request_id != wanted.request_id:
        requests.finish(found.request_id, RUNNER, Ended(RequestStatus.DONE))
    assert found is not None
    return found


def test_apply_a_plan_and_watch_it_finish(look: Open, site: Site) -> None:
    page = look(f"/plans/{site.ids['ready']}", Role.OPERATOR)
    page.get_by_role("button", name="Apply").click()
    expect(page.get_by_role("status")).to_contain_text("asked to apply")
    asked, ledger = claimed(site, RequestKind.APPLY), site.service.ledger
    assert asked.arguments["plan"].endswith("/ready/")
    assert asked.actor.operator == "operator-bob"
    expect(page.locator("#state")).to_contain_text("running")  # by itself: nobody loaded the page again
    ledger.requests.event(asked.request_id, "delete", {"done": 20, "of": 48})
    expect(page.locator("#events + ol")).to_contain_text("delete")
    plan = ledger.plans.header(site.ids["ready"])
    assert plan is not None
    write_run(ledger, "run-ready", plan, site.service.clock.now())
    ledger.requests.finish(
        asked.request_id, RUNNER, Ended(RequestStatus.DONE, run_id="run-ready", plan_id=plan.plan_id)
    )
    expect(page.locator("#state")).to_contain_text("done")
    page.get_by_role("link", name="run-ready").click()
    expect(page.locator("main")).to_contain_text("40 files quarantined (40.0 MiB)")
    page.goto(f"/plans/{site.ids['ready']}")
    expect(page.locator("main")).to_contain_text("A plan is used once.")
    expect(page.get_by_role("button", name="Apply")).to_have_count(0)


def test_a_run_at_work_is_told_whole_and_the_keyboard_stays_where_it_was(
    look: Open, site: Site, tmp_path: Path
) -> None:
    ledger, now = site.service.ledger, site.service.clock.now()
    plan = write_plan(ledger, tmp_path / "plan", now - timedelta(minutes=50))
    ledger.requests.create("req-watched", RequestKind.APPLY, ADA, job=plan.job, plan_id=plan.plan_id)
    asked = claimed(site, RequestKind.APPLY)
    ledger.plans.claim(plan.plan_id, "run-watched")
    ledger.runs.start("run-watched", plan.job, plan.plan_id, plan.actor)
    page = look("/runs/run-watched", Role.OPERATOR)
    journal = page.locator("section", has=page.get_by_role("heading", name="Journal"))
    expect(journal).to_contain_text("No batch was begun yet.")
    page.get_by_role("button", name="Cancel after this batch").focus()
    files = [JournalFile(f"s3://lake/watched/{n}.parquet", 1 << 20, now, None, "a.b.c", "data") for n in range(3)]
    ledger.journal.intent("run-watched", 0, files)
    ledger.journal.outcomes("run-watched", 0, [FileOutcome(file.uri, "quarantined") for file in files])
    expect(journal).to_contain_text("3 quarantined")  # by itself, as all that follows
    assert page.evaluate("document.activeElement.textContent") == "Cancel after this batch"
    ended = {
        "run_id": "run-watched",
        "plan_id": plan.plan_id,
        "job": plan.job,
        "status": "done",
        "changed": {"files": 3},
    }
    tally, nothing = {"files": 3, "bytes": 3 << 20}, {"files": 0, "bytes": 0}
    kept = {"restorable_until": (now + timedelta(days=7)).isoformat(), "absent": 0, "kept": {}, "failed": []}
    ledger.runs.finish(
        "run-watched", "done", {**ended, "deleted": nothing, "hidden": nothing, "quarantined": tally, **kept}
    )
    ledger.requests.finish(asked.request_id, RUNNER, Ended(RequestStatus.DONE, run_id="run-watched"))
    expect(page.get_by_role("button", name="Restore from quarantine")).to_be_visible()
    expect(page.locator("main")).to_contain_text("3 files quarantined (3.0 MiB)")


def test_cancel_a_request_that_is_at_work(look: Open, site: Site) -> None:
    ledger = site.service.ledger
    ledger.requests.create("req-long", RequestKind.RUN, ADA, job="orphan-cleanup")
    claimed(site, RequestKind.RUN)
    page = look("/requests/req-long", Role.OPERATOR)
    page.get_by_role("button", name="Cancel after this batch").click()
    expect(page.locator("main")).to_contain_text("operator-bob cancelled it")
    assert ledger.requests.beat("req-long", RUNNER).cancel
    ledger.requests.finish("req-long", RUNNER, Ended(RequestStatus.CANCELLED))
    expect(page.locator("#state")).to_contain_text("cancelled")
    expect(page.get_by_role("button", name="Cancel")).to_have_count(0)


def test_see_a_refusal_and_follow_its_hint(look: Open) -> None:
    page = look("/")
    refused = page.locator("section", has=page.get_by_role("heading", name="Refused", exact=True))
    expect(refused).to_contain_text(DAMAGED.hint)
    refused.get_by_role("link", name="prod.tenant_07.events_00007").click()
    expect(page.get_by_role("heading", name="Why no file of it is removed")).to_be_visible()
    expect(page.locator("main")).to_contain_text(DAMAGED.message)
    page.get_by_role("link", name=DAMAGED.code).first.click()
    expect(page.get_by_role("heading", name="What to do")).to_be_visible()
    expect(page.locator("main")).to_contain_text("prod.tenant_07.events_00007")


def test_search_a_files_fate(look: Open, site: Site) -> None:
    page = look("/audit", Role.OPERATOR)
    page.get_by_label("Address of a file").fill(site.ids["uri"])
    page.get_by_role("button", name="Find").click()
    expect(page.locator("main")).to_contain_text("quarantined")
    expect(page.locator("main")).to_contain_text("ada, ticket OPS-7")
    page.get_by_role("button", name="Explain").click()
    asked = claimed(site, RequestKind.AUDIT)
    told = {"uri": site.ids["uri"], "status": "deleted", "exists": False}
    site.service.ledger.requests.finish(asked.request_id, RUNNER, Ended(RequestStatus.DONE, result=told))
    page.get_by_role("link", name="To the file's fate").click()
    expect(page.locator("main")).to_contain_text("in quarantine")
    expect(page.locator("main")).to_contain_text("run run-used can be taken back until")


def test_restore_from_quarantine(look: Open, site: Site) -> None:
    page = look("/runs/run-used", Role.OPERATOR)
    page.get_by_role("button", name="Restore from quarantine").click()
    asked = claimed(site, RequestKind.RESTORE)
    assert asked.arguments == {"run_id": "run-used"}
    site.service.ledger.requests.finish(asked.request_id, RUNNER, Ended(RequestStatus.DONE))
    expect(page.locator("#state")).to_contain_text("done")


def test_freeze_and_unfreeze(look: Open, site: Site) -> None:
    page = look("/", Role.OPERATOR)
    page.get_by_text("Freeze…").click()
    page.get_by_label("Why no worker may begin").fill("the lake looks odd <b>")
    page.get_by_role("button", name="Freeze the whole deployment").click()
    for path in ("/", "/tables", "/runs"):
        page.goto(path)
        expect(page.get_by_role("region", name="Frozen")).to_contain_text("the lake looks odd <b>")
    viewer = look("/schedule")
    expect(viewer.get_by_role("region", name="Frozen")).to_contain_text("An operator can unfreeze.")
    page.get_by_role("button", name="Unfreeze").click()
    expect(page.get_by_role("region", name="Frozen")).to_have_count(0)
    assert site.service.ledger.switches.frozen() is None


@pytest.mark.parametrize("javascript", [True, False])
def test_approve_a_plan_that_somebody_else_made(look: Open, site: Site, tmp_path: Path, javascript: bool) -> None:
    ledger, now = site.service.ledger, site.service.clock.now()
    plan = write_plan(ledger, tmp_path / "plan", now - timedelta(minutes=30 + javascript), approval=True)
    page = look(f"/plans/{plan.plan_id}", Role.APPROVER, java_script_enabled=javascript)
    expect(page.locator("main header")).to_contain_text("waiting for approval")
    page.get_by_role("button", name="Approve").click()
    decided = ledger.approvals.get(plan.plan_id)
    assert decided is not None
    assert (decided.decision, decided.actor.operator, decided.planned_by) == ("approved", "approver-bob", "ada")
    assert claimed(site, RequestKind.APPLY).arguments["plan"].endswith("/plan/")
    page.goto(f"/plans/{plan.plan_id}")
    expect(page.locator("main")).to_contain_text("Approved by approver-bob")
    expect(page.locator("main")).to_contain_text("It is being worked on")


def test_a_planner_cannot_approve_and_a_rejected_plan_cannot_be_applied(look: Open, site: Site, tmp_path: Path) -> None:
    ledger, now = site.service.ledger, site.service.clock.now()
    plan = write_plan(ledger, tmp_path / "plan", now - timedelta(minutes=40), approval=True)
    mine = look(f"/plans/{plan.plan_id}", Role.APPROVER, name="ada")
    expect(mine.locator("main")).to_contain_text("another approver has to agree")
    expect(mine.get_by_role("button", name="Approve")).to_have_count(0)
    page = look(f"/plans/{plan.plan_id}", Role.APPROVER)
    page.get_by_text("Reject…").click()
    page.get_by_label("Why").fill("too many files")
    page.get_by_role("button", name="Reject the plan").click()
    expect(page.locator("main")).to_contain_text("Rejected by approver-bob")
    expect(page.locator("main")).to_contain_text("too many files")
    expect(page.get_by_role("button", name="Apply")).to_have_count(0)


def test_a_viewer_changes_nothing(look: Open, site: Site) -> None:
    page = look("/")
    before = [one.request_id for one in site.service.ledger.requests.list(limit=100)]
    forms = (
        "/freeze",
        "/observe",
        "/restore-drill",
        "/plans",
        "/forecast",
        "/audit",
        "/leases/release",
        "/requests/req-queued/cancel",
    )
    own = (f"/plans/{site.ids['used']}/apply", f"/plans/{site.ids['used']}/decide", "/runs/run-used/restore")
    for path in (*forms, *own):
        answer = page.request.post(path, form={"csrf": "x", "reason": "x", "job": "compaction", "uri": "s3://a/b"})
        assert answer.status == 403, path
    for path in ("/", "/tables/prod.tenant_00.events_00000", f"/plans/{site.ids['used']}", "/runs/run-used", "/leases"):
        page.goto(path)
        expect(page.locator("main form[method=post]")).to_have_count(0)
    assert [one.request_id for one in site.service.ledger.requests.list(limit=100)] == before
    assert site.service.ledger.switches.frozen() is None


def test_log_in_and_out(look: Open, site: Site) -> None:
    token = site.service.ledger.tokens.create("carla", Role.OPERATOR, created_by="test")
    page = look("/login?next=/runs", None)
    page.get_by_label("Token").fill("lw_wrong")
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("alert")).to_contain_text("does not count")
    page.get_by_label("Token").fill(token)
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("heading", name="Runs", exact=True).first).to_be_visible()
    expect(page.locator(".who")).to_contain_text("carla")
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()
