"""Every kind of stop × every job: the same kind of record, and the same command then ends as if nothing had been."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType

from lakewarden.formats.iceberg.catalog.catalog import IcebergCatalog
from lakewarden.jobs.compaction import run as compacting
from lakewarden.jobs.snapshot_expiry import run as expiring
from lakewarden.jobs.tier_handoff import run as handing
from lakewarden.ledger.lease import Lease
from lakewarden.ledger.leases import Leases
from lakewarden.model.errors import (
    CatalogUnavailableError,
    FrozenError,
    LakewardenError,
    LeaseHeldError,
    LeaseLostError,
    NothingAppliedError,
    PlanExpiredError,
    PlanUsedError,
    StoreUnavailableError,
)
from lakewarden.model.run import RunResult
from lakewarden.model.stop import Stopped
from tests.jobs.orphan_cleanup.site import Seen
from tests.jobs.snapshot_expiry.expiry_site import Site, backdate, rows_at, snapshot_ids
from tests.steps.apply.test_crash import Crash
from tests.steps.apply.test_ending_words import UNTRUE
from tests.support.lakes import age_everything, plant_orphans

pytestmark = [
    pytest.mark.spark,
    pytest.mark.usefixtures("spark"),
    pytest.mark.filterwarnings("ignore:Delete operation did not match"),
]

TABLES = ("db.a", "db.b")
FIRST = ("orphan-cleanup", "snapshot-expiry", "partition-expiry", "manifest-rewrite", "compaction")
SECOND = ("tier-handoff", "physical-deletion")
"""These need what expiry did."""
JOBS = (*FIRST, *SECOND)
SCHEMA = Schema(NestedField(1, "id", LongType(), required=False), NestedField(2, "dt", StringType(), required=False))
BY_DAY = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "dt"))
SECTIONS = {
    "orphan_cleanup": {"grace_period_hours": 24, "max_orphan_share": 1.0, "rate_limit_ms": 0, "batch_size": 3},
    "snapshot_expiry": {"retain_hours": 1},
    "physical_deletion": {"visibility_delay_hours": 1, "rate_limit_ms": 0, "batch_size": 3},
    "partition_expiry": {
        "expiration_hours": 24,
        "timestamp_formatter": "yyyyMMdd",
        "timestamp_pattern": "$dt",
        "max_drop_share": 1.0,
    },
    "manifest_rewrite": {"min_manifests": 3, "min_gain": 0.1},
    "compaction": {"min_input_files": 2, "bandwidth_share": 1.0},
}
RECORDS = ("expired", "dropped", "clustered", "compacted", "removed")
"""The steps by which a run that changes tables says that it is through with a piece of its work."""


@dataclass
class Lake:
    """A small lake with a plan of every job, that can be set back to the moment before any of their applies."""

    site: Site
    plans: dict[str, Seen] = field(default_factory=dict)
    ends: dict[str, Any] = field(default_factory=dict)

    def keep(self, *jobs: str) -> None:
        """Plan these jobs, and remember how everything lies now."""
        self.plans |= {job: self.site.plan(job) for job in jobs}
        self._copy(lambda place, kept: (place, kept), self._kept(jobs[0]))

    def set_back(self, job: str) -> None:
        self.site.clock.passed *= 0
        self._copy(lambda place, kept: (kept, place), self._kept(job))

    def _kept(self, job: str) -> Path:
        return self.site.base / "kept" / ("first" if job in FIRST else "second")

    def _copy(self, order: Callable[[Path, Path], tuple[Path, Path]], kept: Path) -> None:
        self.site.close()
        # Tables by hard links, since a file is known by its number; what is rewritten in place by copies.
        for name in ("warehouse", "state", "catalog.db", "cold"):
            how: Any = os.link if name == "warehouse" else shutil.copy2
            source, target = order(self.site.base / name, kept / name)
            if target.exists():
                shutil.rmtree(target) if target.is_dir() else target.unlink()
            target.parent.mkdir(parents=True, exist_ok=True)
            if source.is_dir():
                shutil.copytree(source, target, copy_function=how)
            elif source.exists():
                how(source, target)

    def apply(self, job: str, **how: Any) -> RunResult:
        return self.site.apply(self.plans[job], **how)

    def run_of(self, job: str) -> dict[str, Any]:
        [found] = [run for run in self.site.warden.runs() if run["plan_id"] == self.plans[job].plan.plan_id]
        return self.site.warden.run_detail(found["run_id"])

    def end(self, result: RunResult) -> Any:
        """What an apply left behind. Many files have new names each time, so they are counted."""
        tables = [self.site.catalog().load_table(name) for name in TABLES]
        files = Counter((str(path.parent), path.suffix) for path in self._files())
        seen = [(len(snapshot_ids(table)), rows_at(table)) for table in tables]
        return seen, files, len(self.site.pending()), dict(result.changed), result.status, result.failed

    def _files(self) -> Iterator[Path]:
        for place in ("warehouse", "cold"):
            found = (self.site.base / place).rglob("*")
            yield from (path for path in found if path.is_file() and not any(part[0] == "." for part in path.parts))


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    base = tmp_path_factory.mktemp("endings")
    with pytest.MonkeyPatch.context() as patch, Site.on_sqlite(base) as site:
        # One commit a group, so that there is something left to do; for every run alike, since commits are counted.
        patch.setattr(compacting, "GROUPS_A_ROUND", 1)
        site.sections = {name: dict(values) for name, values in SECTIONS.items()}
        site.sections["tier_handoff"] = {"dry_run": False, "destination": f"file://{base}/cold"}
        catalog = site.catalog()
        catalog.create_namespace("db")
        for name in TABLES:
            table = catalog.create_table(name, SCHEMA, partition_spec=BY_DAY)
            table.append(rows(0))
            for first in (10, 20):
                table.overwrite(rows(first))
            for first in (30, 40, 50):
                table.append(rows(first))
            plant_orphans(table.location())
            backdate(catalog.load_table(name), int(site.clock.now().timestamp() * 1000))
        age_everything(base / "warehouse")
        lake = Lake(site)
        lake.keep(*FIRST)
        for job in FIRST:
            lake.set_back(job)
            lake.ends[job] = lake.end(lake.apply(job))
        lake.set_back("snapshot-expiry")
        lake.apply("snapshot-expiry")
        site.later(2)
        lake.keep(*SECOND)
        for job in SECOND:
            lake.set_back(job)
            lake.ends[job] = lake.end(lake.apply(job))
        for job, end in lake.ends.items():
            assert (end[-2], end[-1]) == ("done", ()), job
            assert sum(end[-3].values()) > 1, job
        yield lake


def rows(first: int) -> pa.Table:
    days = ["20240101", "20990101"] * 2
    return pa.table({"id": pa.array(range(first, first + 4), pa.int64()), "dt": days})


class Trap:
    """Goes off once a run has recorded the first piece of its work."""

    def __init__(self, lake: Lake, patch: pytest.MonkeyPatch, action: Callable[[], None] = lambda: None) -> None:
        self.armed = False
        self._action = action
        ledger = lake.site.warden._deployment.ledger
        # One after the other, so that there is something left to do.
        patch.setattr(expiring, "TABLES_AT_ONCE", 1)
        patch.setattr(handing, "BATCH", 2)
        self._watch(patch, ledger.journal, "outcomes", lambda *_: True)
        self._watch(patch, ledger.runs, "step", lambda _, name, *__: name in RECORDS)
        self._watch(patch, ledger.cold, "add", lambda files: bool(files))

    def _watch(self, patch: pytest.MonkeyPatch, owner: Any, name: str, is_work: Callable[..., bool]) -> None:
        real = getattr(owner, name)

        def watched(*given: Any, **more: Any) -> Any:
            found = real(*given, **more)
            if is_work(*given) and not self.armed:
                self.armed = True
                self._action()
            return found

        patch.setattr(owner, name, watched)

    def raising(self, patch: pytest.MonkeyPatch, owner: Any, name: str, error: Exception) -> None:
        """From then on a call does nothing but fail."""
        real = getattr(owner, name)

        def failing(*given: Any, **more: Any) -> Any:
            if self.armed:
                raise error
            return real(*given, **more)

        patch.setattr(owner, name, failing)


def frozen(lake: Lake, patch: pytest.MonkeyPatch, job: str) -> None:
    Trap(lake, patch, lambda: lake.site.warden.freeze(reason="incident"))
    lake.apply(job)


def lease_lost(lake: Lake, patch: pytest.MonkeyPatch, job: str) -> None:
    Trap(lake, patch).raising(patch, Lease, "check", LeaseLostError("lost"))
    lake.apply(job)


def lease_held(lake: Lake, patch: pytest.MonkeyPatch, job: str) -> None:
    Trap(lake, patch).raising(patch, Leases, "acquire", LeaseHeldError("held"))
    lake.apply(job)


def store_away(lake: Lake, patch: pytest.MonkeyPatch, job: str) -> None:
    Trap(lake, patch).raising(patch, Leases, "acquire", StoreUnavailableError("away"))
    lake.apply(job)


def catalog_away(lake: Lake, patch: pytest.MonkeyPatch, job: str) -> None:
    """From the beginning: not every job asks the catalog later."""
    [catalog] = lake.site.warden._deployment.formats.values()

    def silent(_: Any) -> Any:
        raise CatalogUnavailableError("away")

    patch.setattr(type(catalog), "pointers", silent)
    lake.apply(job)


def signalled(lake: Lake, patch: pytest.MonkeyPatch, job: str) -> None:
    """As the command line does: between two pieces of work, where progress is told."""
    trap = Trap(lake, patch)

    def told(*_: object) -> None:
        if trap.armed:
            raise Stopped("stopped by SIGTERM")

    lake.apply(job, progress=told)


def interrupted(lake: Lake, patch: pytest.MonkeyPatch, job: str) -> None:
    """In the middle of a call."""
    Trap(lake, patch, _raise(KeyboardInterrupt))
    lake.apply(job)


def broken(lake: Lake, patch: pytest.MonkeyPatch, job: str) -> None:
    """An error that nobody foresaw."""
    Trap(lake, patch, _raise(RuntimeError))
    lake.apply(job)


def _raise(kind: type[BaseException]) -> Callable[[], None]:
    def act() -> None:
        raise kind

    return act


STOPS: dict[Callable[[Lake, pytest.MonkeyPatch, str], None], tuple[type[BaseException], str]] = {
    frozen: (FrozenError, "LW-APPLY-001"),
    lease_lost: (LeaseLostError, "LW-LEASE-002"),
    lease_held: (LeaseHeldError, "LW-LEASE-001"),
    store_away: (StoreUnavailableError, "LW-STORE-001"),
    catalog_away: (CatalogUnavailableError, "LW-CATALOG-001"),
    signalled: (Stopped, "LW-CORE-002"),
    interrupted: (KeyboardInterrupt, "LW-CORE-001"),
    broken: (RuntimeError, "LW-CORE-001"),
}


def told_truly(error: BaseException, stop: Callable[..., None]) -> None:
    """After something was changed, what was changed is said, and nobody says that nothing was."""
    told = f"{getattr(error, 'message', '')} {getattr(error, 'hint', '')}"
    assert not UNTRUE.search(told)
    if isinstance(error, LakewardenError) and stop is not catalog_away:
        assert re.search(r"By its record the run had changed [1-9]", told), told
        assert re.search(r"same apply goes on|[Rr]un apply again", told), told


@pytest.mark.parametrize("job", JOBS)
@pytest.mark.parametrize("stop", STOPS, ids=lambda stop: stop.__name__)
def test_a_stop_leaves_the_run_open_and_the_same_apply_ends_it(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, stop: Callable[..., None], job: str
) -> None:
    if (stop, job) == (catalog_away, "tier-handoff"):
        pytest.skip("a handover reads archived metadata, and asks no catalog")
    if (stop, job) == (lease_held, "compaction"):
        pytest.skip("a group that somebody else works on is left to them: tests/jobs/compaction/test_meanwhile.py")
    lake.set_back(job)
    error, code = STOPS[stop]
    with monkeypatch.context() as patch, pytest.raises(error) as found:
        stop(lake, patch, job)
    told_truly(found.value, stop)
    run = lake.run_of(job)
    assert (run["status"], run["finished_at"]) == ("stopped", None)
    assert (run["steps"][-1]["name"], run["steps"][-1]["detail"]["code"]) == ("stopped", code)
    lake.site.close()
    lake.site.warden.unfreeze()

    assert lake.end(lake.apply(job)) == lake.ends[job]

    run = lake.run_of(job)
    assert (run["status"], run["open_batches"]) == ("done", [])
    assert lake.site.warden.audit_verify()["ok"]


@pytest.mark.parametrize("job", JOBS)
def test_a_killed_process_is_shown_as_stopped_and_gone_on_with(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, job: str
) -> None:
    """Nothing of it can be written: what shows is that nobody holds the run's lease."""
    lake.set_back(job)
    with monkeypatch.context() as patch:
        Trap(lake, patch, _raise(Crash))
        runs = lake.site.warden._deployment.ledger.runs
        mark = runs.mark
        patch.setattr(runs, "mark", lambda run, status: mark(run, status) if status == "running" else _raise(Crash)())
        with pytest.raises(Crash):
            lake.apply(job)
        assert runs.open_for_plan(lake.plans[job].plan.plan_id).status == "running"
    lake.site.close()
    assert lake.run_of(job)["status"] == "stopped"
    assert lake.end(lake.apply(job)) == lake.ends[job]


@pytest.mark.parametrize("job", JOBS)
def test_an_expired_plan_is_settled_and_closed(lake: Lake, monkeypatch: pytest.MonkeyPatch, job: str) -> None:
    lake.set_back(job)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        interrupted(lake, patch, job)
    done = lake.run_of(job)["open_batches"]
    lake.site.later(30)
    with pytest.raises(PlanExpiredError):
        lake.apply(job)
    run = lake.run_of(job)
    assert run["finished_at"] is not None, done
    assert (run["status"], run["open_batches"]) == ("partial", [])
    steps = [step for step in run["steps"] if step["name"] == "failed"]
    assert [step["detail"]["code"] for step in steps] == ["LW-PLAN-003"]
    with pytest.raises((PlanExpiredError, PlanUsedError)):
        lake.apply(job)
    assert lake.site.warden.audit_verify()["ok"]


@pytest.mark.parametrize("job", JOBS)
def test_a_refusal_closes_the_run_and_uses_the_plan_up(lake: Lake, monkeypatch: pytest.MonkeyPatch, job: str) -> None:
    """Another deployment has come to live there: no second try would mend that."""
    lake.set_back(job)
    with monkeypatch.context() as patch:
        Trap(lake, patch).raising(patch, Leases, "acquire", NothingAppliedError("theirs"))
        with contextlib.suppress(NothingAppliedError):
            lake.apply(job)
    run = lake.run_of(job)
    assert (run["status"], run["finished_at"] is None) == ("partial", False)
    told = [*(step["detail"]["code"] for step in run["steps"] if "failed" in step["name"])]
    assert set(told) == {"LW-APPLY-006"}
    with pytest.raises(PlanUsedError):
        lake.apply(job)
    assert lake.site.warden.audit_verify()["ok"]


@pytest.mark.parametrize("job", ["partition-expiry", "manifest-rewrite"])
def test_a_run_does_not_list_its_catalogs_for_each_of_its_tables(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, job: str
) -> None:
    """A fleet of thousands would be listed thousands of times: what is asked of each table is asked of it alone."""
    lake.set_back(job)
    pointers, asked = IcebergCatalog.pointers, list[str]()

    def counted(self: IcebergCatalog) -> object:
        asked.append(self.name)
        return pointers(self)

    monkeypatch.setattr(IcebergCatalog, "pointers", counted)
    assert lake.apply(job).status == "done"
    assert asked == ["lake"]
