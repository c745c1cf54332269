"""A file goes into quarantine and comes back, in a place of the drill's own: through the same trash, door and restore."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice

from lakewarden.ledger.lease import Lease
from lakewarden.ledger.runs import Run
from lakewarden.model.drill import Drill, DrillPlace, DrillStatus
from lakewarden.model.errors import DrillFailedError, LeaseHeldError
from lakewarden.model.margins import MARGINS
from lakewarden.model.ports import FileOutcome, JournalFile
from lakewarden.model.verdict import Outcome
from lakewarden.steps.apply.removal import digest_of
from lakewarden.steps.apply.trash import PURGED, RUNS_LOOKED_AT, trash_lease, trash_of
from lakewarden.steps.deployment import Deployment
from lakewarden.storage.copying import same_bytes
from lakewarden.storage.quarantine import copy_to_trash, purge, restore, trash_address

# In the trash it stands where the id of a run does, and no run has such a one.
DRILL = "restore-drill"
# Of a run with a million files in quarantine, the smallest of these is taken.
FILES_LOOKED_AT = 1000
# What goes through the drill where nothing lies in quarantine: as many bytes as a small file has.
MADE_UP = bytes(range(256)) * 256


def drills_of(deployment: Deployment) -> str:
    """Where drills put what comes back: in the state, which is never under a root."""
    return f"{deployment.state}drills/"


@contextmanager
def drill_place(deployment: Deployment, lease: Lease) -> Iterator[str]:
    """The drill's directory, empty before and afterwards, and so is what it has in the trash.

    Every drill has the same one, under the drill's lease: what a drill left that died is removed by the next.
    """
    _clear(deployment, lease)
    try:
        yield f"{drills_of(deployment)}{DRILL}/"
    finally:
        _clear(deployment, lease)


def _clear(deployment: Deployment, lease: Lease) -> None:
    for place in (trash_of(deployment), drills_of(deployment)):
        _emptied(deployment, place, lease)


def drill_quarantine(deployment: Deployment, place: str, lease: Lease, most: int) -> Drill:
    """Put one file into the trash, remove it, bring it back, compare. Raises LakewardenError where any of it fails."""
    stores, trash, uri = deployment.stores, trash_of(deployment), f"{place}quarantine/file"
    what, data = _sample(deployment, most)
    if not stores.create(uri, data) or (found := stores.head(uri)) is None:
        raise DrillFailedError(f"{uri} could not be written; nothing was tried")
    file = JournalFile(uri, found.size, found.modified, found.etag, "", "drill")
    copied = _done(copy_to_trash(stores, trash, DRILL, [file]), Outcome.KEPT, "did not get into the trash")
    _emptied(deployment, drills_of(deployment), lease)
    if stores.head(uri) is not None:
        raise DrillFailedError(f"{uri} is still there after it was removed")
    _done(restore(stores, trash, DRILL, [uri], {uri: copied.message}), Outcome.KEPT, "did not come back")
    if stores.get(uri) != data:
        raise DrillFailedError(f"{uri} came back with other bytes than went into quarantine")
    return Drill(DrillPlace.QUARANTINE, DrillStatus.PROVEN, what, 1, len(data))


def _sample(deployment: Deployment, most: int) -> tuple[str, bytes]:
    """The smallest file that a run has in quarantine now, its bytes proven by the journal; made-up bytes where none is."""
    for run in _in_quarantine(deployment):
        try:
            with deployment.leases.waiting(0.0).acquire(trash_lease(run.run_id), MARGINS.lease_seconds):
                if any(step.name == PURGED for step in deployment.ledger.runs.steps(run.run_id)):
                    continue
                if (found := _smallest(deployment, run, most)) is not None:
                    return found
        except LeaseHeldError:
            continue  # it is restored or purged right now; another run's file serves as well
    return "a file of the drill's own; nothing lies in quarantine", MADE_UP


def _smallest(deployment: Deployment, run: Run, most: int) -> tuple[str, bytes] | None:
    rows = islice(deployment.ledger.journal.outcome_rows(run.run_id, Outcome.QUARANTINED), FILES_LOOKED_AT)
    fitting = [(file, digest) for file, outcome in rows if 0 < file.size <= most and (digest := digest_of(outcome))]
    if not fitting:
        return None
    file, digest = min(fitting, key=lambda one: (one[0].size, one[0].uri))
    kept = trash_address(trash_of(deployment), run.run_id, file.uri)
    try:
        data = deployment.stores.get(kept)
    except FileNotFoundError:
        raise DrillFailedError(f"{file.uri} of run {run.run_id} is not in the trash any more: {kept}") from None
    if not same_bytes(deployment.stores, kept, data, digest):
        raise DrillFailedError(f"{kept} does not have the bytes any more that run {run.run_id} put there")
    return f"{file.uri} of run {run.run_id}", data


def _in_quarantine(deployment: Deployment) -> Iterator[Run]:
    """Runs that put files into quarantine, the latest first."""
    for run in deployment.ledger.runs.list(RUNS_LOOKED_AT):
        if run.finished_at is not None and ((run.result or {}).get("quarantined") or {}).get("files"):
            yield run


def _done(outcomes: list[FileOutcome], wanted: Outcome, words: str) -> FileOutcome:
    (found,) = outcomes
    if found.outcome != wanted:
        raise DrillFailedError(f"{found.uri} {words}: {found.code or found.outcome} {found.message or ''}".rstrip())
    return found


def _emptied(deployment: Deployment, place: str, lease: Lease) -> None:
    for outcomes in purge(deployment.stores, place, DRILL, deployment.clock, check_lease=lease.check):
        if failed := [one for one in outcomes if one.outcome == Outcome.FAILED]:
            raise DrillFailedError(f"{failed[0].uri} could not be removed: {failed[0].code} {failed[0].message}")
