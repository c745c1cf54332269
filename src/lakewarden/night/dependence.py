"""What an earlier job's end means for a later one (docs/design/0026-one-night.md).

Every job reads the lake and the ledger anew, and takes only what is past its own delay, so most jobs are as safe after a
failed one as after a good one. Order is safety in two cases, and only there is a job held back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from lakewarden.model.errors import InvariantViolationError, TooManyAbsentError
from lakewarden.model.night import JobOutcome, JobStatus
from lakewarden.steps.job import JobSpec

# Signs that files go that somebody needs, or by somebody else's hand: until a person has looked, nothing is deleted.
STOP_DELETING = frozenset({InvariantViolationError.code, TooManyAbsentError.code})

Serves = Callable[[str, str], bool]


@dataclass(frozen=True, slots=True)
class HeldBack:
    """Why a job is not run at all, or else the tables that it leaves alone tonight."""

    why: str | None = None
    tables: frozenset[str] = frozenset()


def held_back(spec: JobSpec, before: Sequence[JobOutcome], serves: Serves) -> HeldBack:
    """What the jobs of this night that are over keep a job from. `serves`: whether a job can do its work for a table."""
    if spec.deletes and (alarm := next((job for job in before if alarms(job)), None)) is not None:
        assert alarm.error is not None
        return HeldBack(f"{alarm.job} ended with {alarm.error.code}: nothing more is deleted until somebody has looked")
    tables: set[str] = set()
    for outcome in before:
        hazard = next((text for job, text in spec.needs.items() if job == outcome.job), None)
        if hazard is None:
            continue
        undone = _undone(outcome, partial(serves, outcome.job))
        if undone is None:
            code = f" ({outcome.error.code})" if outcome.error else ""
            return HeldBack(f"{outcome.job} {outcome.status}{code}: {hazard}")
        tables |= undone
    return HeldBack(tables=frozenset(tables))


def alarms(outcome: JobOutcome) -> bool:
    """Whether nothing more may be deleted until a person has looked."""
    return outcome.error is not None and outcome.error.code in STOP_DELETING


def _undone(outcome: JobOutcome, serves: Callable[[str], bool]) -> set[str] | None:
    """The tables for which a job did not do its work and may do it another night; None if that may be any of them.

    A table whose format the job does not serve is not among them: no cold copy is ever made of a Paimon table, and to wait
    for it would be to wait for ever. Who needs the copy says `require_cold_copy`.
    """
    if outcome.error is not None or outcome.status in (JobStatus.SKIPPED, JobStatus.STOPPED):
        return None
    # A run over tables names a table that failed by its identifier.
    failed = {file.uri for result in outcome.results for file in result.failed}
    return failed | {table.table for table in outcome.refused if serves(table.table)}
