"""From an empty page to files in quarantine, with a stop on the way, and back: a real lake, a real runner, a real browser."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import expect

from lakewarden.model.clock import SystemClock
from lakewarden.model.service import Role
from lakewarden.service.runner.loop import Runner
from lakewarden.service.service import service_of
from lakewarden.settings import load_settings
from lakewarden.warden import Warden
from lakewarden.wiring import Wiring
from tests.service.pages.conftest import Open, Site, served
from tests.support.worlds import World, make_world

SLOW = 120_000


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    policy = {"dry_run": False, "approval": True, "delete_mode": "quarantine", "confirmations": 1}
    # One file a batch and a pause between batches: somebody has the time to press a button.
    policy |= {"batch_size": 1, "rate_limit_ms": 700, "max_concurrent_deletions": 1}
    made = make_world(tmp_path_factory.mktemp("lake") / "world", ("sales.orders",), **policy)
    yield made
    made.close()


@pytest.fixture(scope="module")
def site(world: World) -> Iterator[Site]:
    """The service over the world, and a runner in a thread of its own: between them only the ledger."""
    settings = load_settings(str(world.config), env={})
    wiring = Wiring(settings, SystemClock())
    runner = Runner(wiring.deployment, settings, Warden(wiring, settings), "host-1/1", beat_seconds=0.2)
    ended = threading.Event()

    def work() -> None:
        while not ended.is_set():
            if runner.work_once() is None:
                ended.wait(0.1)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    yield from served(service_of(settings, SystemClock()), {})
    ended.set()
    thread.join(60)
    wiring.close()


def test_a_plan_is_asked_for_approved_cancelled_applied_and_taken_back(
    spark: Any, look: Open, site: Site, world: World
) -> None:
    planted = world.planted()
    operator = look("/", Role.OPERATOR)
    operator.get_by_role("button", name="Look again").click()
    expect(operator.locator("#state")).to_contain_text("done", timeout=SLOW)
    operator.goto("/tables")
    operator.get_by_role("link", name="sales.orders").click()
    expect(operator.get_by_role("heading", name="Snapshots and refs")).to_be_visible()
    assert operator.locator("svg circle").count() >= 1

    operator.goto("/plans")
    operator.get_by_text("New plan…").click()
    operator.locator("#new-job").select_option("orphan-cleanup")
    operator.get_by_role("button", name="Plan", exact=True).click()
    expect(operator.locator("#state")).to_contain_text("waiting", timeout=SLOW)
    operator.locator("dt:has-text('Plan') + dd a").click()
    expect(operator.locator("main")).to_contain_text(f"{len(planted)} files to move to the trash")
    expect(operator.get_by_role("button", name="Apply")).to_have_count(0)

    approver = look(operator.url, Role.APPROVER)
    approver.get_by_role("button", name="Approve").click()
    expect(approver.locator("progress")).to_be_visible(timeout=SLOW)
    approver.get_by_role("button", name="Cancel after this batch").click()
    expect(approver.locator("#state")).to_contain_text("cancelled", timeout=SLOW)
    left = [path for path in planted if path.exists()]
    assert 0 < len(left) < len(planted)
    assert world.lost() == set()

    approver.goto(operator.url)
    expect(approver.locator("main")).to_contain_text("It was stopped before its end")
    approver.get_by_role("button", name="Go on").click()
    expect(approver.locator("#state")).to_contain_text("done", timeout=SLOW)
    assert not any(path.exists() for path in planted)
    assert world.lost() == set()
    approver.locator("dt:has-text('Run') + dd a").click()
    expect(approver.locator("main")).to_contain_text(f"{len(planted)} files quarantined")

    approver.get_by_role("button", name="Restore from quarantine").click()
    expect(approver.locator("#state")).to_contain_text("done", timeout=SLOW)
    assert all(path.exists() for path in planted)
    approver.goto(f"/audit?uri=file://{sorted(planted)[0]}")
    expect(approver.locator("main")).to_contain_text("approver-bob")
