"""The first pair of commands that anybody types, as processes of their own: plan, then apply."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from tests.support.worlds import MakeWorld


@pytest.mark.usefixtures("java")
def test_plan_and_apply_leave_nothing_behind(world_of: MakeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    world = world_of(orphans=3)
    before = world.on_disk()
    # A short name: where it is long, Spark and its workers do not talk over sockets that could be left lying.
    with tempfile.TemporaryDirectory(prefix="lw-") as scratch:
        monkeypatch.setenv("TMPDIR", scratch)
        code, plan, _ = world.cli("plan", "orphans")
        assert (code, plan["totals"]["changes"]) == (0, {"files": len(world.planted())})
        code, run, _ = world.cli("apply", plan["path"], "--yes")
        assert (code, run["status"], run["deleted"]["files"]) == (0, "done", len(world.planted()))
        left = {path.name for path in Path(scratch).iterdir() if not path.name.startswith("hsperfdata")}
    assert before - world.on_disk() == world.planted()
    assert left == set()
