"""What a run put into quarantine: what of it still lies there, until when, and who brought the rest back."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from lakewarden.ledger.runs import Run
from lakewarden.model.run import RESTORED, RunResult, RunStatus
from lakewarden.service.service import Service


@dataclass(frozen=True, slots=True)
class Trash:
    """The quarantine of one run. `until` is None where nothing of it can be brought back, any more or at all."""

    until: datetime | None
    files: int
    bytes: int | None
    restores: tuple[Run, ...]


def trash_of(service: Service, run: Run) -> Trash:
    """What lies in a run's quarantine now. How many bytes are left is not known where some files were brought back."""
    result = RunResult.of(run.result) if run.result else None
    if result is None or not result.quarantined.files:
        return Trash(None, 0, 0, ())
    restores = restores_of(service, run.run_id)
    until, left = result.restorable_until, result.quarantined.files
    if restores:
        left = min(_left(one) for one in restores)
    if until is None or service.clock.now() >= until or not left:
        return Trash(None, left, None, restores)
    return Trash(until, left, None if restores else result.quarantined.bytes, restores)


def restores_of(service: Service, run_id: str) -> tuple[Run, ...]:
    """The runs that are over and brought something of a run's quarantine back, in order."""
    noted = (step.detail for step in service.ledger.runs.steps(run_id) if step.name == RESTORED)
    found = (service.ledger.runs.get(detail["by"]) for detail in noted)
    return tuple(run for run in found if run is not None and run.result is not None)


def brought_back_by(service: Service, run_id: str, uri: str) -> Run | None:
    """The first run that brought a file back; whoever restored once more found it where it was."""
    return next((run for run in restores_of(service, run_id) if not _failed(run, uri)), None)


def _left(restore: Run) -> int:
    """How many files a restore could not bring back: each that it could, here or before, is where it was."""
    result = RunResult.of(restore.result or {})
    return 0 if result.status is RunStatus.DONE else max(1, result.failures or len(result.failed))


def _failed(restore: Run, uri: str) -> bool:
    return any(one.uri == uri for one in RunResult.of(restore.result or {}).failed)
