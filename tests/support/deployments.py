"""A deployment under test: its configuration file, its clock, and its plans and runs as plain values.

Every test that has a Lakewarden of its own builds it here; what a folder adds is its tables and the questions it asks of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Self

from lakewarden.model.actor import Actor, Trigger
from lakewarden.model.clock import SystemClock
from lakewarden.model.plan import Plan, TablePlan
from lakewarden.model.run import RunResult
from lakewarden.warden import Warden
from lakewarden.wiring import open_warden
from tests.support.configuration import Sections, write_toml
from tests.support.lakes import local_path

Properties = Mapping[str, str]


class TurnedClock(SystemClock):
    """The machine's clock, turned `by` as much as a test says: the fault of a wrong clock.

    What has `passed` has passed for the stores too (tests/conftest.py): that is no fault, only later.
    """

    def __init__(self, by: timedelta = timedelta()) -> None:
        self.by = by
        self.passed = timedelta()

    def now(self) -> datetime:
        return datetime.now(UTC) + self.by + self.passed


@dataclass(frozen=True)
class Seen:
    """A plan, with what tests ask of it."""

    plan: Plan
    path: str
    rows: Sequence[Mapping[str, Any]]

    def table(self, name: str) -> TablePlan:
        return next(
            table for table in self.plan.tables if table.identifier == name or table.identifier == f"lake.{name}"
        )

    def refusal(self, name: str) -> str | None:
        """The code of the table's refusal."""
        found = self.table(name).refusal
        return found.code if found else None

    def message(self, name: str) -> str:
        found = self.table(name).refusal
        assert found is not None, f"{name} was planned"
        return found.message

    def orphans(self, name: str | None = None) -> set[Path]:
        return self.judged("orphan", name)

    def judged(self, verdict: str, name: str | None = None) -> set[Path]:
        """The files of that verdict, as paths on this disk, under the names the plan will delete."""
        wanted = None if name is None else self.table(name).identifier
        return {
            local_path(row["uri"]) for row in self.rows if row["verdict"] == verdict and wanted in (None, row["table"])
        }

    def verdict(self, path: Path) -> str:
        """The verdict on one file; a live file has no row."""
        return next((row["verdict"] for row in self.rows if local_path(row["uri"]) == path), "live")


@dataclass(kw_only=True)
class Deployed:
    """What a configuration says, the worker that it describes, and the time that passes for it."""

    base: Path = field(kw_only=False)
    catalogs: dict[str, Properties] = field(default_factory=dict, kw_only=False)
    """What the catalogs' own libraries load them with, by name."""
    format: str = "iceberg"
    formats: dict[str, str] = field(default_factory=dict)
    """The catalogs that have another format than `format`."""
    sections: Sections = field(default_factory=dict)
    policies: dict[str, dict[str, Mapping[str, Any]]] = field(default_factory=dict)
    """Overrides by pattern of tables: sections with their values."""
    storage: dict[str, dict[str, str]] = field(default_factory=dict)
    """Credentials and addresses of stores, by prefix."""
    state: str = ""
    """Where the deployment keeps its plans and leases, if not below `base`."""
    database: str = "sqlite"
    worker: str = "tester"
    clock: TurnedClock = field(default_factory=TurnedClock)
    _warden: Warden | None = None
    _others: list[Warden] = field(default_factory=list)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Forget the deployment's processes, as if they had ended; its state stays."""
        for warden in (*self._others, *([self._warden] if self._warden else [])):
            warden.close()
        self._warden, self._others = None, []

    @property
    def warden(self) -> Warden:
        if self._warden is None:
            self._warden = open_warden(self.config(), clock=self.clock)
        return self._warden

    def another(self, clock: SystemClock | None = None) -> Warden:
        """One more process of this deployment, by the configuration as it is by now."""
        self._others.append(open_warden(self.config(), clock=clock))
        return self._others[-1]

    def properties_of(self) -> Mapping[str, Properties]:
        """The catalogs' properties, by name."""
        return self.catalogs

    def config(self, name: str = "lakewarden.toml") -> str:
        """The configuration file, written anew."""
        catalogs = {
            name: {"format": self.formats.get(name, self.format), "properties": values}
            for name, values in self.properties_of().items()
        }
        document = {
            "worker": {"id": self.worker},
            "state": {"location": self.state or f"file://{self.base}/state", "database": self.database},
            "spark": {"master": "local[2]"},
            "catalogs": catalogs,
            **({"storage": self.storage} if self.storage else {}),
            **self.sections,
            # Tables of a test were written a moment ago; what has to settle is for tests of its own.
            "compaction": {"settle_minutes": 0, **self.sections.get("compaction", {})},
            "overrides": [{"match": pattern, **sections} for pattern, sections in self.policies.items()],
        }
        return str(write_toml(self.base / name, document))

    def plan(self, job: str, *select: str, trigger: Trigger = Trigger.MANUAL, **how: Any) -> Seen:
        """Plan a job and read the plan's rows back."""
        return planned(self.warden, job, *select, trigger=trigger, **how)

    def apply(self, seen: Seen, **how: Any) -> RunResult:
        return self.warden.apply(seen.path, **how)

    def run(self, job: str, *select: str) -> RunResult:
        """Plan and apply, as a person would who has read the plan."""
        return self.apply(self.plan(job, *select))

    def later(self, hours: float) -> None:
        """Let time pass for the deployment."""
        self.clock.passed += timedelta(hours=hours)

    def pending(self) -> set[Path]:
        """The files that expiry released and nobody has deleted yet."""
        return {local_path(uri) for page in self.warden._deployment.ledger.pending.iter_uris() for uri in page}


def planned(warden: Warden, job: str, *select: str, trigger: Trigger = Trigger.MANUAL, **how: Any) -> Seen:
    """A plan, read back as it was written down: its rows, those of refused tables too."""
    result = warden.plan(job, select=select, actor=Actor("tester", "tester", trigger), **how)
    loaded = warden.load_plan(result.path)
    assert loaded.plan == result.plan
    return Seen(loaded.plan, result.path, list(warden.plan_rows(result.path)))


def sqlite_properties(base: Path) -> dict[str, str]:
    """A catalog in a file, its tables on this disk beside it."""
    return {"type": "sql", "uri": f"sqlite:///{base}/catalog.db", "warehouse": f"file://{base}/warehouse"}
