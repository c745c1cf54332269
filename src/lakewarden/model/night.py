"""What a night hands back: what became of each job, the worst of it, and what a shell is told."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

from lakewarden.model.errors import Exit, Refusal
from lakewarden.model.plan import Plan, Tally
from lakewarden.model.run import RefusedTable, RunResult

# What a shell is told of several jobs: the first of these that any of them ended with. What went wrong and is not known
# to be harmless comes first, then what somebody has to correct, then what was done in part, then what was left alone.
WORST_FIRST = (
    Exit.FAILED,
    Exit.USAGE,
    Exit.PARTIAL,
    Exit.REFUSED,
    Exit.STALE,
    Exit.LEASE_HELD,
    Exit.NOT_FOUND,
    Exit.DONE,
)


class JobStatus(StrEnum):
    """A run's own status, or why there is none: its turn did not come, or a signal ended it."""

    DONE = "done"
    PARTIAL = "partial"
    REFUSED = "refused"
    FAILED = "failed"
    PLANNED = "planned"
    SKIPPED = "skipped"
    STOPPED = "stopped"


_STATUSES = {Exit.DONE: JobStatus.DONE, Exit.PARTIAL: JobStatus.PARTIAL, Exit.REFUSED: JobStatus.REFUSED}


def status_of(code: Exit) -> JobStatus:
    """What a job is called that ended with this exit code."""
    return _STATUSES.get(code, JobStatus.FAILED)


def plan_exit(plan: Plan, strict: bool = False) -> Exit:
    """Refused when every table was, or with `strict` when any was."""
    refused = sum(table.refusal is not None for table in plan.tables)
    return Exit.REFUSED if refused and (strict or refused == len(plan.tables)) else Exit.DONE


def worst(codes: Iterable[Exit]) -> Exit:
    """The exit code of several jobs."""
    return min(codes, key=WORST_FIRST.index, default=Exit.DONE)


@dataclass(frozen=True, slots=True)
class JobOutcome:
    """What became of one job.

    `result` is what its run did; of a run that was ended early, what it had done by then. `resumed` are runs that an
    earlier night left open and this one went on with. `planned` is what the plan would change where nothing was applied;
    `to_trash`: its files would be quarantined.
    `left_alone` are tables that wait for an earlier job, which did not do its work for them.
    """

    job: str
    status: JobStatus
    exit_code: Exit = Exit.DONE
    seconds: float = 0.0
    plan_id: str | None = None
    plan_path: str | None = None
    result: RunResult | None = None
    resumed: tuple[RunResult, ...] = ()
    planned: Mapping[str, int] = field(default_factory=dict)
    to_trash: bool = False
    refused: tuple[RefusedTable, ...] = ()
    brakes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    error: Refusal | None = None
    skipped_because: str | None = None
    left_alone: tuple[str, ...] = ()

    @property
    def results(self) -> tuple[RunResult, ...]:
        """Every run that the job had this night."""
        return (*self.resumed, *([self.result] if self.result else []))

    @property
    def changed(self) -> dict[str, int]:
        return _summed(result.changed for result in self.results)

    def as_json(self) -> dict[str, Any]:
        return {
            "job": self.job,
            "status": str(self.status),
            "run_id": self.result.run_id if self.result else None,
            "plan_id": self.plan_id,
            "plan_path": self.plan_path,
            "changed": self.changed,
            "deleted": asdict(sum((result.deleted for result in self.results), Tally())),
            "quarantined": asdict(sum((result.quarantined for result in self.results), Tally())),
            "kept": dict(self.result.kept) if self.result else {},
            "failed": [asdict(file) for result in self.results for file in result.failed],
            "failures": sum(result.failures for result in self.results),
            "planned": dict(self.planned),
            "to_trash": self.to_trash,
            "looked_at": list(self.result.looked_at) if self.result else [],
            "refused": [asdict(table) for table in self.refused],
            "brakes": {name: list(tables) for name, tables in self.brakes.items()},
            "resumed": [result.run_id for result in self.resumed],
            "error": asdict(self.error) if self.error else None,
            "seconds": round(self.seconds, 1),
            "skipped_because": self.skipped_because,
            "left_alone": list(self.left_alone),
        }


@dataclass(frozen=True, slots=True)
class NightResult:
    """All jobs of one night, in the order of the day. `stopped` is the exit code of the signal that ended it."""

    night_id: str
    jobs: tuple[JobOutcome, ...] = ()
    stopped: Exit | None = None

    @property
    def status(self) -> JobStatus:
        if self.stopped is not None:
            return JobStatus.STOPPED
        found = status_of(worst(job.exit_code for job in self.jobs))
        if found is JobStatus.DONE and not any(any(job.changed.values()) for job in self.jobs):
            return JobStatus.PLANNED if any(job.status is JobStatus.PLANNED for job in self.jobs) else found
        return found

    @property
    def refused(self) -> int:
        """How many tables any job refused."""
        return len({table.table for job in self.jobs for table in job.refused})

    def exit_code(self, *, strict: bool = False) -> Exit:
        """The worst of the jobs; with `strict` a refused table is told where nothing worse is."""
        if self.stopped is not None:
            return self.stopped
        refused = [Exit.REFUSED] if strict and self.refused else []
        return worst([*(job.exit_code for job in self.jobs), *refused])

    def as_json(self) -> dict[str, Any]:
        results = [result for job in self.jobs for result in job.results]
        return {
            "night_id": self.night_id,
            "status": str(self.status),
            "jobs": [job.as_json() for job in self.jobs],
            "totals": {
                "jobs": len(self.jobs),
                "deleted": asdict(sum((result.deleted for result in results), Tally())),
                "quarantined": asdict(sum((result.quarantined for result in results), Tally())),
                "failed": sum(result.failures for result in results),
                "refused": self.refused,
                "seconds": round(sum(job.seconds for job in self.jobs), 1),
            },
        }


def _summed(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for some in counts:
        for kind, count in some.items():
            total[kind] = total.get(kind, 0) + count
    return total
