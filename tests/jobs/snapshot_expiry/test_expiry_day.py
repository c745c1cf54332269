"""The order of a day leaves nothing behind, and a day that dies between any two steps is mended by the next run."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.table import Table

from lakewarden.model.errors import PlanUsedError, StoreUnavailableError
from lakewarden.model.run import RunResult
from lakewarden.steps.apply import ending, removal
from tests.formats.paimon.test_expiry_crashes import Crash, crashing
from tests.jobs.snapshot_expiry.expiry_pen import BY_PART, SCHEMA, arrow
from tests.jobs.snapshot_expiry.expiry_site import (
    DELETION,
    EXPIRY,
    HOUR_MS,
    ORPHANS,
    Rows,
    Site,
    backdate,
    files_below,
    needed_by,
    refs_of,
    rows_of_all,
    snapshot_ids,
)
from tests.support.deployments import Seen
from tests.support.lakes import age_everything

pytestmark = [pytest.mark.usefixtures("spark"), pytest.mark.filterwarnings("ignore:Delete operation did not match")]

TABLES = ("db.plain", "db.referred", "db.quiet")
STATE = (("warehouse", os.link), ("state", shutil.copy2), ("catalog.db", shutil.copy2))
"""Tables by hard links, since a file is known by its number; what is rewritten in place by copies."""


@dataclass
class Stage:
    """A site with a plan, that can be set back to the moment before its apply."""

    site: Site
    plan: Seen
    rows: dict[str, dict[int, Rows]]
    saved: Path

    @classmethod
    def of(cls, site: Site, plan: Seen, rows: dict[str, dict[int, Rows]]) -> Stage:
        saved = site.base / "saved" / plan.plan.job
        site.close()
        saved.mkdir(parents=True)
        for name, how in STATE:
            _copy(site.base / name, saved / name, how)
        return cls(site, plan, rows, saved)

    def set_back(self) -> None:
        self.site.close()
        for name, how in STATE:
            place = self.site.base / name
            shutil.rmtree(place) if place.is_dir() else place.unlink()
            _copy(self.saved / name, place, how)

    def table(self, name: str) -> Table:
        return self.site.catalog().load_table(name)

    def files(self) -> set[Path]:
        return files_below(self.site.base / "warehouse")

    def seen(self) -> dict[str, Any]:
        """What readers see of every table."""
        return {name: (snapshot_ids(self.table(name)), refs_of(self.table(name))) for name in TABLES}

    def check_rows(self) -> None:
        for name in TABLES:
            found = rows_of_all(self.table(name))
            assert found == {number: self.rows[name][number] for number in found}, name


def _copy(source: Path, target: Path, how: Any) -> None:
    if source.is_dir():
        shutil.copytree(source, target, copy_function=how)
    else:
        how(source, target)


@pytest.fixture(scope="module")
def expiring_stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """Three tables, one of them with a stale tag and one that has nothing to expire."""
    with Site.on_sqlite(tmp_path_factory.mktemp("day")) as site:
        catalog = site.catalog()
        catalog.create_namespace("db")
        for name in TABLES:
            table = catalog.create_table(name, SCHEMA, partition_spec=BY_PART)
            table.append(arrow(0))
            if name != "db.quiet":
                for first in (10, 20):
                    table.overwrite(arrow(first))
            if name == "db.referred":
                ids = [snapshot.snapshot_id for snapshot in table.snapshots()]
                table.manage_snapshots().create_tag(ids[0], "kept").commit()
                table.manage_snapshots().create_tag(ids[2], "stale", max_ref_age_ms=HOUR_MS).commit()
            backdate(catalog.load_table(name), int(site.clock.now().timestamp() * 1000))
        age_everything(site.base / "warehouse")
        rows = {name: rows_of_all(catalog.load_table(name)) for name in TABLES}
        yield Stage.of(site, site.plan(EXPIRY), rows)


@dataclass(frozen=True)
class End:
    """What an apply leaves behind."""

    seen: dict[str, Any]
    files: set[Path]
    pending: set[Path]
    result: RunResult


@pytest.fixture(scope="module")
def expired(expiring_stage: Stage) -> End:
    stage = expiring_stage
    stage.set_back()
    result = stage.site.apply(stage.plan)
    assert (result.status, result.changed) == ("done", {"snapshots": 4 + 3, "refs": 1})
    return End(stage.seen(), _but_metadata(stage.files()), stage.site.pending(), result)


@pytest.fixture(scope="module")
def deleting_stage(expiring_stage: Stage, expired: End) -> Stage:
    """The same site when the files that expiry released may go."""
    stage = expiring_stage
    stage.set_back()
    stage.site.apply(stage.plan)
    stage.site.later(2)
    plan = stage.site.plan(DELETION)
    stage.site.later(-2)
    return Stage.of(stage.site, plan, stage.rows)


def _but_metadata(files: set[Path]) -> set[Path]:
    """Metadata files have new names each time."""
    return {path for path in files if not path.name.endswith(".metadata.json")}


def test_a_day_leaves_nothing_for_orphan_cleanup(deleting_stage: Stage, expired: End) -> None:
    stage = deleting_stage
    stage.set_back()
    site = stage.site
    # Between expiry and deletion: what is released is not orphan cleanup's.
    between = site.orphans_at_once()
    assert between.orphans() == set()
    assert {between.verdict(path) for path in expired.pending} == {"pending"}
    assert site.apply(between).changed == {"files": 0}
    assert all(path.exists() for path in expired.pending)
    result = site.apply(stage.plan)
    assert (result.status, result.deleted.files, result.absent) == ("done", len(expired.pending), 0)
    assert site.orphans_at_once().orphans() == set()
    assert stage.files() == {path for name in TABLES for path in needed_by(stage.table(name))}
    assert not site.pending()
    stage.check_rows()
    assert site.warden.audit_verify() == {"ok": True, "runs": 3, "problems": []}


def test_orphan_cleanup_is_not_stopped_by_what_deletion_took(deleting_stage: Stage) -> None:
    """Its grace is longer than deletion's delay, so it still knows of states whose files are gone by right."""
    stage = deleting_stage
    stage.set_back()
    stage.site.apply(stage.plan)
    plan = stage.site.plan(ORPHANS)
    assert {table.identifier: table.refusal for table in plan.plan.tables if table.refusal} == {}


def test_a_run_that_goes_on_after_deletion_releases_nothing_twice(
    expiring_stage: Stage, expired: End, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names of files that are gone would count as somebody else's deed in the next deletion, and stop it."""
    stage = expiring_stage
    stage.set_back()
    with monkeypatch.context() as patched:
        crashing(patched, *owner_of(stage.site, "swap"), after=True, on_call=1)
        with pytest.raises(Crash):
            stage.site.apply(stage.plan)
    stage.site.close()
    stage.site.delete_released()
    gone = {path for path in expired.pending if not path.exists()}
    assert gone
    stage.site.close()
    stage.site.apply(stage.plan)
    assert not stage.site.pending() & gone


def owner_of(site: Site, name: str) -> tuple[Any, str]:
    deployment = site.warden._deployment
    return {
        "ledger": (deployment.ledger.pending, "add_rows"),
        "step": (deployment.ledger.runs, "step"),
        "archive": (deployment.ledger.archives, "add"),
        "archived": (deployment.stores, "put"),
        "metadata": (deployment.stores, "create"),
        "swap": (deployment.formats["lake"].expirer._versions(), "_swap"),  # type: ignore[union-attr]
        "head": (ending, "write_head"),
        "finish": (deployment.ledger.runs, "finish"),
        "intent": (deployment.ledger.journal, "intent"),
        "delete": (removal, "delete"),
        "strike": (deployment.ledger.pending, "strike"),
        "outcomes": (deployment.ledger.journal, "outcomes"),
        "last head": (ending, "write_head"),
    }[name]


EXPIRY_POINTS = [
    *(
        (what, when, call)
        for what in ("archive", "archived", "metadata", "swap")
        for when in ("before", "after")
        for call in (1, 2)
    ),
    *((what, when, 1) for what in ("ledger", "head", "finish") for when in ("before", "after")),
    # Of the run's steps the first is its start, the next ones say that a table was begun, or is over.
    *(("step", "after", call) for call in range(1, 6)),
]


@pytest.mark.parametrize(("what", "when", "call"), EXPIRY_POINTS, ids=str)
def test_expiry_dies_at_every_step(
    expiring_stage: Stage, expired: End, monkeypatch: pytest.MonkeyPatch, what: str, when: str, call: int
) -> None:
    stage = expiring_stage
    stage.set_back()
    with monkeypatch.context() as patched:
        owner, name = owner_of(stage.site, what)
        crashing(patched, owner, name, after=when == "after", on_call=call)
        with pytest.raises(Crash):
            stage.site.apply(stage.plan)
    stage.site.close()
    # Whatever is not reached any more is known to be released.
    needed = {path for table in TABLES for path in needed_by(stage.table(table))}
    assert _but_metadata(stage.files()) - needed <= stage.site.pending()
    if (what, when) == ("finish", "after"):
        with pytest.raises(PlanUsedError):
            stage.site.apply(stage.plan)
    else:
        result = stage.site.apply(stage.plan)
        assert (result.status, result.changed, result.failed) == ("done", expired.result.changed, ())
    assert stage.seen() == expired.seen
    assert stage.site.pending() == expired.pending
    assert _but_metadata(stage.files()) == expired.files
    stage.check_rows()
    [run] = stage.site.warden.runs()
    assert run["status"] == "done"
    archives = stage.site.warden._deployment.ledger.archives
    kept = {number for t in stage.plan.plan.tables for found in archives.of(t.uuid) for number in found.snapshots}
    gone = {number for name in TABLES for number in stage.rows[name].keys() - stage.seen()[name][0]}
    assert kept == gone, "what expired is in an archive"
    assert stage.site.warden.audit_verify() == {"ok": True, "runs": 1, "problems": []}


def test_a_table_whose_metadata_cannot_be_archived_releases_nothing(expiring_stage: Stage, expired: End) -> None:
    """Its commit is never tried, so its files are as live as before: none of them may be called waiting.

    The others expire all the same, and the run goes on with it when there is a place for its archive.
    """
    stage = expiring_stage
    stage.set_back()
    before, table = stage.seen(), stage.table("db.plain")
    place = stage.site.base / "state" / "archive" / str(table.metadata.table_uuid)
    place.parent.mkdir(exist_ok=True)
    place.write_bytes(b"no directory")
    with pytest.raises(StoreUnavailableError):
        stage.site.apply(stage.plan)
    assert [run["status"] for run in stage.site.warden.runs()] == ["stopped"]
    assert stage.seen() == {**expired.seen, "db.plain": before["db.plain"]}
    others = {path for path in expired.pending if "plain" not in path.parts}
    assert stage.site.pending() == others < expired.pending
    stage.site.close()
    place.unlink()
    result = stage.site.apply(stage.plan)
    assert (result.status, result.changed) == ("done", expired.result.changed)
    assert stage.seen() == expired.seen
    assert stage.site.pending() == expired.pending
    assert result.kept["pending"] == len(expired.pending)


def test_a_metadata_file_that_never_became_current_is_orphan_cleanups(
    expiring_stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It names nothing that others do not, so it refuses nothing and protects nothing."""
    stage = expiring_stage
    stage.set_back()
    with monkeypatch.context() as patched:
        owner, name = owner_of(stage.site, "swap")
        crashing(patched, owner, name, after=False, on_call=1)
        with pytest.raises(Crash):
            stage.site.apply(stage.plan)
    stage.site.close()
    stage.site.apply(stage.plan)
    stage.site.delete_released()
    age_everything(stage.site.base / "warehouse")
    plan = stage.site.orphans_at_once()
    assert {table.identifier: table.refusal for table in plan.plan.tables if table.refusal} == {}
    needed = {path for table in TABLES for path in needed_by(stage.table(table))}
    assert plan.orphans() == stage.files() - needed
    assert len(plan.orphans()) >= 1
    stage.site.apply(plan)
    assert stage.files() == needed
    stage.check_rows()


DELETION_POINTS = [
    (what, when, 1)
    for what in ("intent", "delete", "strike", "outcomes", "last head", "finish")
    for when in ("before", "after")
]


@pytest.mark.parametrize(("what", "when", "call"), DELETION_POINTS, ids=str)
def test_deletion_dies_at_every_step(
    deleting_stage: Stage, expired: End, monkeypatch: pytest.MonkeyPatch, what: str, when: str, call: int
) -> None:
    stage = deleting_stage
    stage.set_back()
    with monkeypatch.context() as patched:
        owner, name = owner_of(stage.site, what)
        crashing(patched, owner, name, after=when == "after", on_call=call)
        with pytest.raises(Crash):
            stage.site.apply(stage.plan)
    stage.site.close()
    if (what, when) == ("finish", "after"):
        with pytest.raises(PlanUsedError):
            stage.site.apply(stage.plan)
    else:
        result = stage.site.apply(stage.plan)
        assert (result.status, result.deleted.files, result.absent) == ("done", len(expired.pending), 0)
    assert stage.files() == {path for table in TABLES for path in needed_by(stage.table(table))}
    assert not stage.site.pending()
    stage.check_rows()
    assert stage.site.warden.audit_verify() == {"ok": True, "runs": 2, "problems": []}
