"""The sentence on which commands start Spark is true: each command is run where starting Spark fails."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from lakewarden.cli.main import main
from lakewarden.jobs.registry import JOBS
from lakewarden.model.errors import SparkFailedError
from lakewarden.reports.audit.downstream import FEW_ROWS
from lakewarden.wiring import Wiring
from tests.docs.pages import sections, text_of
from tests.docs.test_commands import COMMANDS, PAGE
from tests.support.worlds import World, hand_plan, make_world

SENTENCE = re.search(r"^Spark is started by (.*)$", text_of(PAGE), re.MULTILINE)


def said() -> set[str]:
    """The commands that the page names as those that always start Spark."""
    assert SENTENCE is not None
    always, _, _ = SENTENCE[1].partition("; where there is need of it")
    return {name for name in re.findall(r"`([a-z][a-z -]*)`", always) if name in COMMANDS}


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    found = make_world(tmp_path / "world", ("sales.orders",), delete_mode="quarantine")
    yield found
    found.close()


@pytest.fixture
def starts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every time that Spark would have been started."""
    seen: list[str] = []

    def start(*_: Any, **__: Any) -> Future[Any]:
        seen.append("started")
        refused: Future[Any] = Future()
        refused.set_exception(SparkFailedError("there is no Spark here"))
        return refused

    monkeypatch.setattr(Wiring, "_warm_spark", start)
    return seen


def words_of(world: World) -> dict[str, Callable[[], list[str]]]:
    """What to type for each command, made when its turn comes."""
    table = "lake.sales.orders"
    file = f"file://{next((world.base / 'lake' / 'warehouse').rglob('*.parquet'))}"
    return {
        "plan": lambda: ["orphans"],
        "show": lambda: [hand_plan(world).path],
        "diff": lambda: [hand_plan(world).path, hand_plan(world).path],
        "apply": lambda: [hand_plan(world).path, "--yes"],
        "run": lambda: ["orphans"],
        "runs": lambda: [],
        "restore": lambda: [world.apply(hand_plan(world)).run_id],
        "abandon": lambda: ["nobody", "--yes"],
        "forget": lambda: [table, "--yes"],
        "tables": lambda: [],
        "policy": lambda: [table],
        "doctor": lambda: [],
        "explain": lambda: [file],
        "forecast": lambda: ["--select", table],
        "report": lambda: ["--out", str(world.base / "report.html")],
        "leases": lambda: [],
        "freeze": lambda: [],
        "unfreeze": lambda: [],
        "audit origin": lambda: [file],
        "audit downstream": lambda: [str(world.table().current_snapshot().snapshot_id)],  # type: ignore[union-attr]
        "audit who": lambda: [file],
        "audit verify": lambda: [],
        "config check": lambda: [],
        # It is refused here: no catalog stands behind it.
        "gateway": lambda: [],
        "metrics": lambda: [],
        # It is refused here: Spark is the runner's, a process of its own that starts it with the first request.
        "serve": lambda: ["--host", "0.0.0.0"],
        "token create": lambda: ["ada", "--role", "viewer"],
        "token list": lambda: [],
        "token revoke": lambda: ["nobody"],
    }


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_starts_spark_if_the_page_says_so(world: World, starts: list[str], name: str) -> None:
    words = words_of(world)[name]()
    code = main([*name.split(), *words, "--config", str(world.config), "--output", "json"])
    assert bool(starts) is (name in said()), code


def test_without_its_forecast_a_report_starts_none(world: World, starts: list[str]) -> None:
    out = str(world.base / "report.html")
    assert main(["report", "--out", out, "--no-forecast", "--config", str(world.config)]) == 0
    assert main(["config", "check", "--no-spark", "--config", str(world.config)]) == 0
    assert (starts, Path(out).is_file()) == ([], True)


def test_apply_of_a_manifest_plan_is_one_that_does(tmp_path: Path, starts: list[str]) -> None:
    world = make_world(tmp_path, ("sales.orders",))
    with world.config.open("a") as config:
        config.write("\n[manifest_rewrite]\nmin_manifests = 2\nmin_gain = 0.0\n")
    plan = world.warden.plan("manifest-rewrite")
    assert any(plan.plan.totals()["changes"].values()), "the plan has nothing to rewrite"
    assert starts == []
    main(["apply", plan.path, "--yes", "--config", str(world.config)])
    world.close()
    assert starts == ["started"]
    assert SENTENCE is not None
    assert "`apply` of a `manifest-rewrite` or `compaction` plan" in SENTENCE[1]


def test_an_audit_does_where_the_archive_is_as_large_as_the_page_says() -> None:
    assert SENTENCE is not None
    assert f"`audit downstream` of an archive of more than {FEW_ROWS:,} snapshots" in SENTENCE[1]
    assert f"more than {FEW_ROWS:,} snapshots" in sections(PAGE)["audit downstream"]


@pytest.mark.parametrize("command", ["plan", "run"])
def test_every_job_is_in_the_help(capsys: pytest.CaptureFixture[str], command: str) -> None:
    main([command, "--help"])
    told = " ".join(capsys.readouterr().out.split()).replace("- ", "-")  # a line may end within a name
    assert [job for job in JOBS if job not in told] == []
    page = text_of(PAGE)
    assert [job for job in JOBS if f"`{job}`" not in page] == []
