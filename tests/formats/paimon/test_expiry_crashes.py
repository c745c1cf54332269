"""Expiry that dies between any two of its steps: the next apply ends in the state, and the record, of one that did not."""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from lakewarden.jobs.snapshot_expiry import table_steps
from lakewarden.model.errors import PlanUsedError
from lakewarden.model.run import RunResult
from lakewarden.steps.apply import ending
from tests.formats.paimon.histories import History, Library, age, backdate
from tests.formats.paimon.site import DELETION, EXPIRY, Site, check_rows
from tests.steps.apply.test_crash import Crash
from tests.support.deployments import Seen
from tests.support.worlds import environment

# Plain files, snapshots that become changelogs, two branches.
HISTORIES = ("partition_overwrites", "decoupled_changelog", "branch_with_commits")


@dataclass(frozen=True)
class Stage:
    """A site with a plan, that can be set back to the moment before its apply."""

    site: Site
    histories: tuple[History, ...]
    plan: Seen
    saved: Path

    def set_back(self) -> None:
        """Tables by hard links, since a file is known by its number; what is rewritten in place by copies."""
        self.site.close()
        for name, how in (("lake", os.link), ("state", shutil.copy2)):
            shutil.rmtree(self.site.base / name)
            shutil.copytree(self.saved / name, self.site.base / name, copy_function=how)

    def files(self) -> dict[str, bytes]:
        """Every file of the tables with its bytes. Unfinished writes of a killed process are orphan cleanup's."""
        found = [path for history in self.histories for path in history.location.rglob("[!.]*") if path.is_file()]
        return {str(path.relative_to(self.site.base)): path.read_bytes() for path in found}


@pytest.fixture(scope="module")
def stage(library: Library, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    base = tmp_path_factory.mktemp("crashes")
    with Site(base) as site:
        histories = tuple(library.copy_of(name, site.warehouse()) for name in HISTORIES)
        for history in histories:
            backdate(history, 12)
            age(history)
        plan = site.plan(EXPIRY)
        site.close()
        for name, how in (("lake", os.link), ("state", shutil.copy2)):
            shutil.copytree(base / name, base / "saved" / name, copy_function=how)
        yield Stage(site, histories, plan, base / "saved")


@dataclass(frozen=True)
class End:
    """What an apply leaves behind."""

    files: dict[str, bytes]
    pending: set[Path]
    result: RunResult


@pytest.fixture(scope="module")
def undisturbed(stage: Stage) -> End:
    stage.set_back()
    result = stage.site.apply(stage.plan)
    assert (result.status, result.changed) == ("done", {"snapshots": 5 + 2 + 2 + 2})
    return End(stage.files(), stage.site.pending(), result)


def owner_of(site: Site, name: str) -> tuple[Any, str]:
    deployment = site.warden._deployment
    files = deployment.formats["lake"].expirer._files  # each catalog has stores of its own
    return {
        "ledger": (deployment.ledger.pending, "add_rows"),
        "begun": (deployment.ledger.runs, "step"),
        "hint": (files, "put"),
        "changelog": (files, "create"),
        "intent": (deployment.ledger.journal, "intent"),
        "delete": (table_steps, "delete"),
        "outcomes": (deployment.ledger.journal, "outcomes"),
        "head": (ending, "write_head"),
        "finish": (deployment.ledger.runs, "finish"),
    }[name]


def crashing(patched: pytest.MonkeyPatch, owner: Any, name: str, *, after: bool, on_call: int) -> None:
    """Die before or after the work of one call, of whatever thread."""
    real = getattr(owner, name)
    calls = itertools.count(1)

    def dying(*given: Any, **more: Any) -> Any:
        mine = next(calls) == on_call
        if mine and not after:
            raise Crash
        answer = real(*given, **more)
        if mine:
            raise Crash
        return answer

    patched.setattr(owner, name, dying)


POINTS = [
    *((what, when, 1) for what in ("ledger", "hint", "changelog", "head", "finish") for when in ("before", "after")),
    *((what, when, 2) for what in ("intent", "delete", "outcomes", "hint") for when in ("before", "after")),
    # Of the run's steps the first is its start, the next ones say that a table was begun, or is over.
    *(("begun", "after", call) for call in range(1, 6)),
]


@pytest.mark.parametrize(("what", "when", "call"), POINTS, ids=lambda value: str(value))
def test_a_crash_at_every_step(
    stage: Stage, undisturbed: End, monkeypatch: pytest.MonkeyPatch, what: str, when: str, call: int
) -> None:
    stage.set_back()
    with monkeypatch.context() as patched:
        owner, name = owner_of(stage.site, what)
        crashing(patched, owner, name, after=when == "after", on_call=call)
        with pytest.raises(Crash):
            stage.site.apply(stage.plan)
    stage.site.close()
    check_end(stage, undisturbed, finished=(what, when) == ("finish", "after"))


@pytest.mark.parametrize("count", [1, 3, 6])
def test_a_crash_after_some_of_the_snapshot_files(
    stage: Stage, undisturbed: End, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    stage.set_back()
    gone = []
    real = os.unlink

    def dying(name: Any, **more: Any) -> None:
        real(name, **more)
        if str(name).startswith("snapshot-"):
            gone.append(name)
            if len(gone) == count:
                raise Crash

    with monkeypatch.context() as patched:
        patched.setattr(os, "unlink", dying)
        with pytest.raises(Crash):
            stage.site.apply(stage.plan)
    stage.site.close()
    check_end(stage, undisturbed)


def check_end(stage: Stage, undisturbed: End, *, finished: bool = False) -> None:
    """Apply again, and compare with an apply that nothing disturbed."""
    if finished:
        with pytest.raises(PlanUsedError):
            stage.site.apply(stage.plan)
    else:
        result = stage.site.apply(stage.plan)
        assert (result.status, result.changed) == ("done", undisturbed.result.changed)
    assert stage.files() == undisturbed.files
    assert stage.site.pending() == undisturbed.pending
    [run] = stage.site.warden.runs()
    assert run["status"] == "done"
    detail = stage.site.warden.run_detail(run["run_id"])
    assert detail["open_batches"] == []
    assert detail["outcomes"]["deleted"]["files"] == 11
    assert stage.site.warden.audit_verify() == {"ok": True, "runs": 1, "problems": []}


KILLED = """
import os, sys
from lakewarden.wiring import open_warden
from lakewarden.jobs.snapshot_expiry import table_steps
warden = open_warden(sys.argv[1])
real, calls = table_steps.delete, []
def dying(*given, **more):
    calls.append(given)
    if len(calls) == 2:
        os._exit(9)
    return real(*given, **more)
table_steps.delete = dying
warden.apply(sys.argv[2])
"""


def test_a_process_that_is_killed_leaves_its_leases_and_the_next_one_goes_on(stage: Stage, undisturbed: End) -> None:
    stage.set_back()
    command = [sys.executable, "-c", KILLED, stage.site.config(), stage.plan.path]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=environment())
    assert done.returncode == 9, done.stderr
    assert stage.files() != undisturbed.files
    check_end(stage, undisturbed)


def test_what_was_released_by_the_crashed_run_is_deleted_in_the_end(
    stage: Stage, undisturbed: End, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The files of a table that was half expired when the process died."""
    stage.set_back()
    with monkeypatch.context() as patched:
        crashing(patched, table_steps, "delete", after=True, on_call=1)
        with pytest.raises(Crash):
            stage.site.apply(stage.plan)
    stage.site.close()
    stage.site.apply(stage.plan)
    stage.site.later(2)
    result = stage.site.run(DELETION)
    stage.site.later(-2)
    assert result.deleted.files == len(undisturbed.pending)
    assert not any(path.exists() for path in undisturbed.pending)
    for history in stage.histories:
        check_rows(history)
