"""What a command hands back: a plan and where it lies, two plans compared, a run and what it did."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from lakewarden.model.errors import Exit
from lakewarden.model.plan import Plan, Tally

# What a run that brings files back counts, whatever job took them away.
RESTORED = "restored"
# The step that a run of expiry notes when it has taken a table's snapshots.
EXPIRED = "expired"
# Files of the plan that a run kept after all: they were needed, or had changed since.
REVALIDATED = "revalidated"


class RunStatus(StrEnum):
    DONE = "done"
    PARTIAL = "partial"
    REFUSED = "refused"
    FAILED = "failed"
    PLANNED = "planned"


_EXITS = {
    RunStatus.DONE: Exit.DONE,
    RunStatus.PLANNED: Exit.DONE,
    RunStatus.PARTIAL: Exit.PARTIAL,
    RunStatus.REFUSED: Exit.REFUSED,
    RunStatus.FAILED: Exit.FAILED,
}


@dataclass(frozen=True, slots=True)
class FailedFile:
    """A file that was to be changed and was not."""

    uri: str
    code: str
    message: str


@dataclass(frozen=True, slots=True)
class RefusedTable:
    """A table that a plan left alone, and why."""

    table: str
    code: str
    message: str
    hint: str


@dataclass(frozen=True, slots=True)
class RunResult:
    """What one run did, in the shape that `apply` and `run` print.

    `hidden` are those of the deleted files that lie in a versioned bucket: their bytes are there until a version expires.
    `planned` is what the plan would change of the tables in `looked_at`, whose `dry_run` left them as they are: all, of a
    run that ended with its plan. `restorable_until` is the moment before which no quarantined file of the run is purged.
    `failed` names the first failures, `failures` counts them all.
    """

    run_id: str
    plan_id: str
    job: str
    status: RunStatus
    changed: Mapping[str, int] = field(default_factory=dict)
    deleted: Tally = field(default_factory=Tally)
    absent: int = 0
    quarantined: Tally = field(default_factory=Tally)
    kept: Mapping[str, int] = field(default_factory=dict)
    failed: tuple[FailedFile, ...] = ()
    hidden: Tally = field(default_factory=Tally)
    planned: Mapping[str, int] = field(default_factory=dict)
    restorable_until: datetime | None = None
    # Where the plan lies; for people, so that a dry run can say what to type next.
    plan_path: str | None = None
    looked_at: tuple[str, ...] = ()
    refused: tuple[RefusedTable, ...] = ()
    # Whether what is `planned` would go to the trash, and not be deleted.
    to_trash: bool = False
    # Every run of one command, where it took several plans; this result is the last one's, with what all of them changed.
    runs: tuple[str, ...] = ()
    # How many failures `failed` does not name: a store that refuses every delete would make a result of any length.
    unnamed: int = 0

    @property
    def failures(self) -> int:
        return len(self.failed) + self.unnamed

    @property
    def exit_code(self) -> Exit:
        return _EXITS[RunStatus(self.status)]

    def as_json(self) -> dict[str, Any]:
        return {
            "run_id": self.run_id,
            "plan_id": self.plan_id,
            "job": self.job,
            "status": str(self.status),
            "changed": dict(self.changed),
            "deleted": asdict(self.deleted),
            "hidden": asdict(self.hidden),
            "absent": self.absent,
            "quarantined": asdict(self.quarantined),
            "kept": dict(self.kept),
            "failed": [asdict(file) for file in self.failed],
            "failures": self.failures,
            "planned": dict(self.planned),
            "restorable_until": self.restorable_until.isoformat() if self.restorable_until else None,
            "looked_at": list(self.looked_at),
            "refused": [asdict(table) for table in self.refused],
            "to_trash": self.to_trash,
            **({"runs": list(self.runs)} if self.runs else {}),
        }

    @staticmethod
    def of(document: Mapping[str, Any]) -> RunResult:
        """The result that a run's record holds."""
        until = document.get("restorable_until")
        return RunResult(
            run_id=document["run_id"],
            plan_id=document["plan_id"],
            job=document["job"],
            status=RunStatus(document["status"]),
            changed=document["changed"],
            deleted=Tally(**document["deleted"]),
            absent=document["absent"],
            quarantined=Tally(**document["quarantined"]),
            kept=document["kept"],
            failed=tuple(FailedFile(**file) for file in document["failed"]),
            hidden=Tally(**document["hidden"]),
            planned=document.get("planned", {}),
            looked_at=tuple(document.get("looked_at", ())),
            refused=tuple(RefusedTable(**table) for table in document.get("refused", ())),
            restorable_until=datetime.fromisoformat(until) if until else None,
            to_trash=document.get("to_trash", False),
            unnamed=document.get("failures", len(document["failed"])) - len(document["failed"]),
        )


@dataclass(frozen=True, slots=True)
class PlanResult:
    """A plan and the directory that holds it."""

    plan: Plan
    path: str

    def as_json(self) -> dict[str, Any]:
        return {**self.plan.as_json(), "path": self.path}


@dataclass(frozen=True, slots=True)
class PlanDiff:
    """What the second plan would change that the first would not, and the reverse."""

    added: Sequence[str]
    removed: Sequence[str]
    changed_tables: Sequence[str] = ()

    def as_json(self) -> dict[str, Any]:
        return {"added": list(self.added), "removed": list(self.removed), "changed_tables": list(self.changed_tables)}
