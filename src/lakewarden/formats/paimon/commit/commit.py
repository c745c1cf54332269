"""One commit to a table: manifests first, then a snapshot file that only appears if nobody else took its number.

What is guaranteed. The snapshot file is created, never written over: on local disk by a hard link, on object stores by a
conditional put. Two workers of ours can never both believe that they made snapshot N. Other writers may be less careful:
Paimon's own, on a file system without a lock, look whether the name is free and then rename over it. So the file is read
back after a pause, and one that is no longer ours counts as lost. A writer that stalls for longer than the pause between
its look and its rename can still replace our snapshot unnoticed; what was committed is then simply undone, and the next
run finds it again. Nothing is ever committed twice: before each try the table is searched for our own commit.

A rollback in the moment before our snapshot file appears is undone by it: the snapshot stands on one that was just taken
away. The one it stands on is therefore read again, too; if it is no longer what it was, that is told by name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lakewarden.formats.avro import read_avro
from lakewarden.formats.paimon.commit.new_snapshot import Changes, Commit, Prepared, prepare
from lakewarden.formats.paimon.metadata.table import Branch, PaimonTable, Snapshot
from lakewarden.model.errors import (
    CommitConflictError,
    IncompleteManifestError,
    LakewardenError,
    PlanOutdatedError,
    StoreUnavailableError,
    UnsettledTableError,
)
from lakewarden.model.ports import Files

TRIES = 10
FIRST_WAIT = 0.01  # seconds; each wait is twice the one before
LONGEST_WAIT = 10.0
SETTLE = 0.2  # seconds between creating a snapshot file and reading it back


@dataclass(frozen=True, slots=True)
class Committed:
    """A commit of ours that is in the table: its snapshot, and how many files and records it took out of it."""

    snapshot_id: int
    files: int
    records: int


def commit_changes(
    location: str,
    read: Callable[[], PaimonTable],
    plan: Callable[[PaimonTable], Changes | None],
    commit: Commit,
    files: Files,
    sleep: Callable[[float], None],
    new_id: Callable[[], str],
    may_commit: Callable[[], None] = lambda: None,
) -> Committed | None:
    """Commit what `plan` makes of the table as it is, again and again until it holds; None if there is nothing to do.

    `may_commit` is the last question before each try is published, and raises if it may not be.
    Raises CommitConflictError after TRIES tries. Files of tries that failed are left for orphan cleanup.
    """
    problem: LakewardenError | None = None
    seen: PaimonTable | None = None
    for attempt in range(TRIES):
        if attempt:
            sleep(min(FIRST_WAIT * 2 ** (attempt - 1), LONGEST_WAIT))
        before, seen = seen, None
        try:
            seen = read()
            if before is not None and seen.first_schema != before.first_schema:
                raise PlanOutdatedError(f"{location} was dropped and created again; nothing was committed to it")
            own = next((snapshot for snapshot in seen.main.snapshots if commit.made(snapshot)), None)
            if own is not None:
                return _account(seen, own, files)
            changes = plan(seen)
        except (UnsettledTableError, IncompleteManifestError) as error:
            # The snapshot that was read may have expired under our hands. If it is still the latest, it is damaged.
            if before is not None and seen is not None and seen.main.latest == before.main.latest:
                raise
            problem, seen = error, seen or before
            continue
        if changes is None:
            return None
        prepared = prepare(seen, changes, commit, files, new_id)
        may_commit()
        if _publish(seen.main, prepared, files, sleep):
            return Committed(prepared.number, changes.files, changes.rows)
        problem = CommitConflictError(f"{TRIES} tries to commit to {location} met other writers each time")
    assert problem is not None
    raise problem


def _publish(branch: Branch, prepared: Prepared, files: Files, sleep: Callable[[float], None]) -> bool:
    """Make the snapshot visible, or False if its number is somebody else's.

    Raises StoreUnavailableError if that is unknown, PlanOutdatedError if the snapshot that it stands on was taken away.
    """
    latest = branch.latest
    assert latest is not None
    directory = f"{branch.directory}snapshot/"
    ground = f"{directory}snapshot-{latest.id}"
    if _found(files, ground) != latest.raw:
        return False  # rolled back, or dropped and created again: our number would mean something else there
    place = f"{directory}snapshot-{prepared.number}"
    try:
        if not files.create(place, prepared.data):
            return False
        # A hint only: readers look whether the next number exists, and list if it does.
        files.put(f"{directory}LATEST", str(prepared.number).encode())
    except StoreUnavailableError:
        pass  # whether it was written, only reading it back can tell
    sleep(SETTLE)
    try:
        if _found(files, place) != prepared.data:
            return False
        undone = _found(files, ground) != latest.raw
    except StoreUnavailableError as error:
        raise StoreUnavailableError(
            f"whether {place} was committed is unknown: it cannot be read back ({error.message})",
            hint="Run the job again: it finds out first, and does nothing twice.",
        ) from error
    if undone:
        raise PlanOutdatedError(
            f"{place} is ours and stands on snapshot {latest.id}, which was taken away while it was committed: if the table "
            f"was rolled back, snapshot {prepared.number} shows again what the rollback took, so roll it back again; if "
            f"snapshot {latest.id} only expired, nothing is amiss"
        )
    return True


def _found(files: Files, uri: str) -> bytes | None:
    try:
        return files.get(uri)
    except FileNotFoundError:
        return None


def _account(table: PaimonTable, snapshot: Snapshot, files: Files) -> Committed:
    """What a commit of ours did that an earlier try, or an earlier process, made."""
    deleted = 0
    if snapshot.delta is not None:
        uri = table.manifest(snapshot.delta)
        try:
            rows = read_avro(files.get(uri), uri, snapshot.delta_size).records
        except FileNotFoundError as error:
            raise IncompleteManifestError(f"{uri} is missing, and snapshot {snapshot.id} needs it") from error
        deleted = sum(row["_NUM_DELETED_FILES"] for row in rows)
    return Committed(snapshot.id, deleted, -int(snapshot.document.get("deltaRecordCount") or 0))
