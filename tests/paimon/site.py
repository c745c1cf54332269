"""Warehouses of Paimon histories and the deployment that looks after them: configuration, clock, plans as plain values.

A site may have several catalogs, each a warehouse with a policy of its own: many courses of events, one Spark plan.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, Self

from lakewarden.model.actor import Actor, Trigger
from lakewarden.model.run import RunResult
from lakewarden.warden import Warden
from lakewarden.wiring import open_warden
from tests.lakes import local_path
from tests.paimon.histories import History
from tests.paimon.reading import all_refs, refs_of, rows_by_java, rows_by_pypaimon
from tests.plan.site import Seen, TurnedClock

EXPIRY, DELETION, ORPHANS, PARTITIONS = "snapshot-expiry", "physical-deletion", "orphans", "partition-expiry"

SECTIONS: Mapping[str, Mapping[str, Any]] = {
    # What tests plant is most of a table's files.
    "orphan_cleanup": {"grace_period_hours": 24, "max_orphan_share": 1.0, "rate_limit_ms": 0},
    "snapshot_expiry": {"retain_min": 1, "retain_max": 1, "retain_hours": 0},
    "physical_deletion": {"visibility_delay_hours": 1, "rate_limit_ms": 0},
    "partition_expiry": {},
}


@dataclass
class Site:
    """Catalogs by name, each with the directory of its warehouse, and what their configuration says."""

    base: Path
    sections: dict[str, dict[str, Any]] = field(default_factory=lambda: {n: dict(v) for n, v in SECTIONS.items()})
    policies: dict[str, dict[str, Mapping[str, Any]]] = field(default_factory=dict)
    """Overrides by catalog: sections with their values."""
    catalogs: tuple[str, ...] = ("lake",)
    clock: TurnedClock = field(default_factory=TurnedClock)
    address: str = ""
    """Where the warehouses are, if not on this disk."""
    storage: dict[str, dict[str, str]] = field(default_factory=dict)
    """Credentials and addresses of stores, by prefix."""
    _warden: Warden | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Forget the deployment's process, as if it had ended; its state stays."""
        if self._warden is not None:
            self._warden.close()
            self._warden = None

    def warehouse(self, catalog: str = "lake") -> Path:
        return self.base / catalog

    @property
    def warden(self) -> Warden:
        if self._warden is None:
            self._warden = open_warden(self.config(), clock=self.clock)
        return self._warden

    def config(self) -> str:
        """The configuration file, written anew."""
        lines = ["[worker]", 'id = "tester"', "[state]", f'location = "file://{self.base}/state"']
        lines += ["[spark]", 'master = "local[2]"']
        for name in self.catalogs:
            address = f"{self.address}{name}" if self.address else f"file://{self.warehouse(name)}"
            lines += [f"[catalogs.{name}]", 'format = "paimon"', f"properties = {_inline({'warehouse': address})}"]
        for prefix, values in self.storage.items():
            lines += [f'[storage."{prefix}"]', *(f"{key} = {json.dumps(value)}" for key, value in values.items())]
        for section, values in self.sections.items():
            lines += [f"[{section}]", *(f"{key} = {json.dumps(value)}" for key, value in values.items())]
        for name, sections in self.policies.items():
            lines += ["[[overrides]]", f'match = "{name}.*"']
            lines += [f"{section} = {_inline(values)}" for section, values in sections.items()]
        path = self.base / "lakewarden.toml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(lines) + "\n")
        return str(path)

    def plan(self, job: str, *select: str, trigger: Trigger = Trigger.MANUAL, **how: Any) -> Seen:
        """Plan a job and read the plan's rows back."""
        result = self.warden.plan(job, select=select, actor=Actor("tester", "tester", trigger), **how)
        return Seen(result.plan, result.path, list(self.warden.plan_rows(result.path)))

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
        return {local_path(uri) for page in self.warden._rooms.ledger.pending.iter_uris() for uri in page}


def name_of(history: History, catalog: str = "lake") -> str:
    """The table's identifier in a site."""
    return f"{catalog}.{history.identifier}"


def check_rows(history: History, *, by_java: bool = True) -> None:
    """Every snapshot and tag that the table still has shows the rows it always did, to pypaimon and to Java."""
    expected = {ref: history.refs[ref] for ref in refs_of(history.location)}
    assert all_refs(history.location, rows_by_pypaimon) == expected, f"{history.name} by pypaimon"
    if by_java and history.opens_in_java:
        assert all_refs(history.location, rows_by_java) == expected, f"{history.name} by Java"


def orphan_rows(seen: Seen, histories: Iterable[History], catalog: str = "lake") -> dict[str, set[Path]]:
    """The planned orphans by history; directories as well as files."""
    return {history.name: seen.orphans(name_of(history, catalog)) for history in histories}


def _inline(values: Mapping[str, Any]) -> str:
    return "{ " + ", ".join(f'"{key}" = {json.dumps(value)}' for key, value in values.items()) + " }"
