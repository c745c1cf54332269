"""What a plan and a run of this job say: states first, then what goes, then what stays and why."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakewarden.cli.main import main
from tests.jobs.snapshot_expiry.expiry_site import Site
from tests.jobs.stale_branches.branchy import JOB, branch, break_branch, make_table, rows, site_of


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with site_of(tmp_path, protect=["audit"]) as found:
        for name in ("db.a", "db.b"):
            table = make_table(found.catalog(), name)
            for made in ("etl", "audit"):
                branch(table, made, 100)
                break_branch(table, made)
            branch(table, "work", 200)
            branch(table, "level")
            table.append(rows(50))
        yield found


def said(site: Site, capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main([*arguments, "--config", site.config()]) == 0
    return capsys.readouterr().out


def test_a_plan_a_run_and_the_way_back(site: Site, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = said(site, capsys, "plan", JOB, "--out", str(tmp_path / "plan"))
    lines = [" ".join(line.split()) for line in plan.splitlines()]
    head = lines.index("branch broken diverged healthy to remove")
    assert lines[head + 1 : head + 5] == [
        "lake etl 2 0 0 2", "lake audit 2 0 0 0", "lake level 0 0 2 0", "lake work 0 2 0 0",
    ]  # fmt: skip
    about = lines[lines.index("lake.db.a") :]
    assert re.fullmatch(r"goes etl: broken, snap-\S+\.avro is gone", about[2])
    assert re.fullmatch(r"stays audit: broken, snap-\S+\.avro is gone; kept: protected by 'audit'", about[3])
    assert about[4].startswith("stays work: diverged, it left main at snapshot ")
    assert about[5] == "stays 1 healthy"
    assert "TOTAL 2 tables, 2 to change" in lines

    shown = said(site, capsys, "show", str(tmp_path / "plan"))
    assert "goes   etl: broken" in shown
    applied = json.loads(said(site, capsys, "apply", str(tmp_path / "plan"), "--yes", "--output", "json"))
    assert (applied["status"], applied["changed"]) == ("done", {"refs": 2})
    assert "2 refs removed" in said(site, capsys, "runs")
    assert said(site, capsys, "restore", applied["run_id"]).startswith("done  restored=2  run=")
    assert "2 refs restored" in said(site, capsys, "runs")
