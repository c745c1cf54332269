"""A deployment under test: its configuration file, its clock, and its plans and runs as plain values."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, Self

from lakewarden.model.actor import Actor, Trigger
from lakewarden.model.run import RunResult
from lakewarden.warden import Warden
from lakewarden.wiring import open_warden
from tests.jobs.orphan_cleanup.site import Seen, TurnedClock
from tests.lakes import local_path

Sections = dict[str, dict[str, Any]]


@dataclass(kw_only=True)
class Deployed:
    """What the configuration says but for its catalogs, which each format writes down in its own way."""

    base: Path = field(kw_only=False)
    sections: Sections = field(default_factory=dict)
    policies: dict[str, dict[str, Mapping[str, Any]]] = field(default_factory=dict)
    """Overrides by pattern of tables: sections with their values."""
    database: str = "sqlite"
    clock: TurnedClock = field(default_factory=TurnedClock)
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

    @property
    def warden(self) -> Warden:
        if self._warden is None:
            self._warden = open_warden(self.config(), clock=self.clock)
        return self._warden

    def catalog_lines(self) -> Iterator[str]:
        """The configuration's lines on catalogs and their stores."""
        raise NotImplementedError

    def config(self) -> str:
        """The configuration file, written anew."""
        lines = ["[worker]", 'id = "tester"']
        lines += ["[state]", f'location = "file://{self.base}/state"', f'database = "{self.database}"']
        lines += ["[spark]", 'master = "local[2]"', *self.catalog_lines()]
        for section, values in self.sections.items():
            lines += [f"[{section}]", *(f"{key} = {json.dumps(value)}" for key, value in values.items())]
        for pattern, sections in self.policies.items():
            lines += ["[[overrides]]", f'match = "{pattern}"']
            lines += [f"{section} = {inline(values)}" for section, values in sections.items()]
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
        return {local_path(uri) for page in self.warden._deployment.ledger.pending.iter_uris() for uri in page}


def copied(sections: Mapping[str, Mapping[str, Any]]) -> Sections:
    """Sections that a test may change."""
    return {name: dict(values) for name, values in sections.items()}


def inline(values: Mapping[str, Any]) -> str:
    """Values in one line of the configuration."""
    return "{ " + ", ".join(f'"{key}" = {json.dumps(value)}' for key, value in values.items()) + " }"
