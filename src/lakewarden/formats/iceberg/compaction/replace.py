"""Data files replaced by others that hold the same rows: a `replace` snapshot of our own, checked against the head it replaces.

The files were rewritten as one snapshot showed them. New files carry that snapshot's sequence number: an equality delete
that came since still applies to them, one that was applied already does not. Rows that were deleted by position since are
deleted from the new files by the same commit. Whatever else happened to an input (taken away, its rows brought back) takes
its group out of the commit; the other groups land.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from lakewarden.formats.avro import Record
from lakewarden.formats.iceberg.commit.new_snapshot import start_removal
from lakewarden.formats.iceberg.commit.versions import MovedOnError, RefusedError, Versions
from lakewarden.formats.iceberg.compaction.carried import NotCarriedError, carried
from lakewarden.formats.iceberg.compaction.head import Head, Wanted, read_head
from lakewarden.formats.iceberg.compaction.new_deletes import Carried, delete_manifests, model_of
from lakewarden.formats.iceberg.compaction.new_manifests import Replacement, new_entries, new_manifests
from lakewarden.formats.iceberg.data.applicable import LiveFile, idle_deletes, live_delete
from lakewarden.formats.iceberg.data.order import EQUALITY
from lakewarden.formats.iceberg.manifests.files import DATA
from lakewarden.formats.iceberg.manifests.opened import OpenedManifests
from lakewarden.formats.iceberg.metadata.known import Version
from lakewarden.formats.iceberg.metadata.refs import MAIN, ancestors, head_of
from lakewarden.formats.iceberg.partitions.drop import COMMIT, commits_in
from lakewarden.formats.iceberg.partitions.specs import key_of
from lakewarden.model.errors import CatalogUnavailableError, CommitConflictError, LakewardenError, LeaseLostError
from lakewarden.model.ports import Files
from lakewarden.model.uri import canonical

TRIES = 8
LEASE_KEY, LEASE_EPOCH = "lakewarden.lease-key", "lakewarden.lease-epoch"
GROUPS, READ_FROM = "lakewarden.groups", "lakewarden.read-snapshot"
# What must be as it was when the files were rewritten.
SAME = ("table-uuid", "format-version", "current-schema-id", "partition-specs", "partition-spec")
# The most snapshots that a summary names as those that wrote the inputs: every reader of the table reads the summary.
MOST_INPUT_SNAPSHOTS = 500


@dataclass(frozen=True, slots=True)
class Commit:
    """One commit on one branch of a table: its groups, the version that they were read from, and the name it is made under.
    `head` is what that version holds of their inputs, if it is known; `once_at` as in `Wanted`.

    `sent` are the groups whose new files were named to a catalog that did not refuse for certain: of all others it is
    certain that no version names their files.
    """

    table: str
    seen: Version
    groups: tuple[Replacement, ...]
    name: str
    properties: Mapping[str, str]
    now_ms: int
    may_commit: Callable[[], None]
    branch: str = MAIN
    sent: set[str] = field(default_factory=set)
    opened: OpenedManifests = field(default_factory=OpenedManifests)
    head: Head | None = None
    once_at: int = 0

    @property
    def base(self) -> Mapping[str, Any]:
        """The snapshot that the groups were read from."""
        found = head_of(self.seen.document, self.branch)
        if found is None:
            raise CommitConflictError(f"{self.table} had no branch {self.branch}; its files were left as they are")
        return found

    @property
    def read_at(self) -> int:
        return int(self.base.get("sequence-number") or 0)


@dataclass
class Outcome:
    """What a commit did, by group: which landed, why the others did not, and what kept all of them from landing."""

    snapshot: int | None = None
    landed: list[str] = field(default_factory=list)
    dropped: dict[str, str] = field(default_factory=dict)
    summary: Mapping[str, str] = field(default_factory=dict)
    failed: LakewardenError | None = None


def replace_files(
    versions: Versions, files: Files, commit: Commit, new_id: Callable[[], uuid.UUID] = uuid.uuid4
) -> Outcome:
    """Put the new files in the place of the old ones on a branch. A repeated call finds the commit of the first.

    `failed` is CommitConflictError if other writers were quicker too often or changed what the groups stand on, and
    LeaseLostError if somebody else has committed under a later epoch of a group's lease, or one is not held any more.
    Raises what reading the table raises, and DoubtfulCommitError if nobody can say whether the commit was made.
    """
    tries = Retrying(
        retry=retry_if_exception_type(MovedOnError),
        stop=stop_after_attempt(TRIES),
        wait=wait_random_exponential(0.05, 2),
        reraise=True,
    )
    try:
        return tries(_try, versions, files, commit, new_id)
    except MovedOnError:
        why = (
            f"{commit.table} was changed by others each of the {TRIES} times that rewritten files were to be committed; "
            "its files were left as they are"
        )
        return Outcome(failed=CommitConflictError(why))
    except (CommitConflictError, LeaseLostError) as error:
        return Outcome(failed=error)


def _try(versions: Versions, files: Files, commit: Commit, new_id: Callable[[], uuid.UUID]) -> Outcome:
    version = versions.current(commit.table)
    if (made := commits_in(version.document, commit.branch).get(commit.name)) is not None:
        landed = [name for name in str(made["summary"].get(GROUPS, "")).split(",") if name]
        # By an earlier call, perhaps another process's: whose files these are is not asked, and all of them are kept.
        commit.sent.update(landed)
        return Outcome(int(made["snapshot-id"]), landed, {}, made["summary"])
    _check_same(version, commit)
    _check_fence(version, commit)
    head = _head(version, files, commit)
    dropped: dict[str, str] = {}
    deleted: dict[str, Carried] = {}
    for group in commit.groups:
        try:
            deleted[group.name] = _deleted_meanwhile(group, head, commit, files)
        except NotCarriedError as error:
            dropped[group.name] = str(error)
    landing = [group for group in commit.groups if group.name not in dropped]
    if not landing:
        return Outcome(None, [], dropped)
    _check_written(files, landing)
    snapshot = _snapshot(version, files, commit, head, landing, deleted, new_id())
    names = [group.name for group in landing]
    before = frozenset(commit.sent)
    # The last look before the swap: a worker that was given up meanwhile must not commit.
    commit.may_commit()
    commit.sent.update(names)
    try:
        versions.add(commit.table, version, snapshot, commit.branch)
    except RefusedError:
        commit.sent.intersection_update(before)
        raise
    except CatalogUnavailableError as error:
        # The answer may have been lost on its way: the next try looks first whether it was done.
        if versions.current(commit.table).location != version.location:
            raise MovedOnError(error.message) from error
        raise
    return Outcome(int(snapshot["snapshot-id"]), names, dropped, snapshot["summary"])


def _check_same(version: Version, commit: Commit) -> None:
    """Raise CommitConflictError if the table has other columns, specs or another version by now, or was rolled back."""
    for name in SAME:
        if version.document.get(name) != commit.seen.document.get(name):
            raise CommitConflictError(f"{commit.table} has another {name} by now; its files were left as they are")
    base = commit.base["snapshot-id"]
    if all(snapshot["snapshot-id"] != base for snapshot in ancestors(version.document, commit.branch)):
        raise CommitConflictError(
            f"{commit.table} was rolled back, or the snapshot that its files were read from has expired; "
            "its files were left as they are"
        )


def _check_written(files: Files, landing: Sequence[Replacement]) -> None:
    """Raise CommitConflictError unless every new file is there as it was written: nothing else may be committed."""
    for file in (file for group in landing for file in group.result.files):
        found = files.head(canonical(file.path))
        if found is None or found.size != file.size:
            raise CommitConflictError(f"the new file {file.path} is not there as it was written; nothing was committed")


def _check_fence(version: Version, commit: Commit) -> None:
    """Raise LeaseLostError if a later holder of a group's lease has committed already."""
    epochs = {group.lease_key: group.epoch for group in commit.groups if group.lease_key}
    base = commit.base["snapshot-id"]
    for snapshot in ancestors(version.document, commit.branch):
        if snapshot["snapshot-id"] == base:
            return
        summary = snapshot.get("summary") or {}
        keys, found = str(summary.get(LEASE_KEY, "")), str(summary.get(LEASE_EPOCH, ""))
        for key, epoch in zip(keys.split(","), found.split(","), strict=False):
            if key in epochs and epoch.isdigit() and int(epoch) > epochs[key]:
                raise LeaseLostError(
                    f"{key} was committed under epoch {epoch}, and this worker holds {epochs[key]}; nothing was committed"
                )


def _head(version: Version, files: Files, commit: Commit) -> Head:
    """The inputs as they are in the newest snapshot of the branch."""
    if commit.head is not None and version.location == commit.seen.location:
        return commit.head  # nobody has changed the table since
    snapshot = head_of(version.document, commit.branch)
    assert snapshot is not None
    inputs = [one for group in commit.groups for one in group.order.inputs]
    numbered = int(version.document["format-version"]) > 1
    wanted = Wanted(
        frozenset(one.path for one in inputs),
        frozenset(key_of(group.spec, group.partition) for group in commit.groups),
        frozenset(one.sequence for one in inputs) if numbered else None,
        commit.once_at,
    )
    return read_head(files, version.document, snapshot, wanted, commit.opened)


def _deleted_meanwhile(group: Replacement, head: Head, commit: Commit, files: Files) -> Carried:
    """The rows of a group's new files that were deleted from its inputs since they were read, which its commit has to
    delete anew. Raises NotCarriedError, with the reason, for a group that cannot land on this head.
    """
    same = True
    for one in group.order.inputs:
        entry = head.data.get(one.path)
        if entry is None:
            raise NotCarriedError(f"{one.path} is not in the table any more")
        if one.path in head.twice:
            raise NotCarriedError(in_the_table_twice(one.path))
        if entry[1].sequence != one.sequence:
            raise NotCarriedError(f"{one.path} was taken away and added again")
        if entry[1].file.get("first_row_id") != one.first_row_id:
            raise NotCarriedError(f"rows of {one.path} were given ids while it was rewritten")
        applied = {deletion.name for deletion in one.deletes}
        now = {
            live.deletion.name
            for live in head.deletes.on(entry[1])
            # An equality delete that came since applies to the new file too.
            if not (live.deletion.kind == EQUALITY and live.live.sequence > commit.read_at)
        }
        same = same and now == applied
    if same:
        return {}
    try:
        found = carried(group, head, commit.read_at, files)
        if found and model_of(files, group.order.version, head, group.spec, commit.opened) is None:
            raise NotCarriedError("no manifest of deletes is there that could be followed")
        return found
    except NotCarriedError as error:
        raise NotCarriedError(
            f"rows of it were deleted, or brought back, while it was rewritten, and that was not carried over: {error}"
        ) from error


def in_the_table_twice(path: str) -> str:
    """Why a file is left alone that was added again while it was there: readers show its rows twice, and so it has to stay.

    Which of its entries was read, and which of them go with its manifests, nobody could tell.
    """
    return f"{path} is in the table more than once; its rows are shown as often, and nobody but its owner can say why"


def _snapshot(
    version: Version,
    files: Files,
    commit: Commit,
    head: Head,
    landing: Sequence[Replacement],
    deleted: Mapping[str, Carried],
    unique: uuid.UUID,
) -> dict[str, Any]:
    """The snapshot with the new files in the place of the old ones; everything that it names is written."""
    started = start_removal(version.document, version.location, unique.int >> 65, str(unique))
    removal = replace(started, operation="replace", branch=commit.branch)
    read_at = commit.read_at
    gone = {one.path for group in landing for one in group.order.inputs}
    written = [new_entries(group, head, removal, read_at) for group in landing]
    new = [LiveFile(group.spec, read_at, e) for group, some in zip(landing, written, strict=True) for e in some]
    # Not every partition that was seen: another manifest, left unread, may have older files of one that no group is in.
    known = frozenset(key_of(group.spec, group.partition) for group in commit.groups)
    idle = idle_deletes(head.deletes, gone, head.ages(gone, new, known))
    affected = {head.data[path][0] for path in gone} | {head.places[name] for name in idle}

    def goes(spec: int, entry: Record) -> bool:
        live = LiveFile(spec, 0, entry)
        content = int(entry["data_file"].get("content") or DATA)
        return live.path in gone if content == DATA else live_delete(live).deletion.name in idle

    rows = [
        removal.manifest(files, place, row, goes, commit.opened.read) if place in affected else dict(row)
        for place, row in enumerate(head.manifests.records)
    ]
    first = len(head.manifests.records)
    added = list(new_manifests(files, removal, head, landing, written, read_at, first, commit.opened))
    carrying = [(group, deleted[group.name]) for group in landing if deleted[group.name]]
    added += delete_manifests(files, removal, head, carrying, first + len(added), commit.opened)
    removal.summary["changed-partition-count"] = len({key_of(group.spec, group.partition) for group in landing})
    properties = {**commit.properties, COMMIT: commit.name, **_lineage(commit, head, landing)}
    return removal.snapshot(files, version.document, head.manifests, [*added, *rows], commit.now_ms, properties)


def _lineage(commit: Commit, head: Head, landing: Sequence[Replacement]) -> dict[str, str]:
    """Which groups these are, what they were made of, and under which leases.

    The inputs' snapshots are those that wrote them, so that whatever is found to be wrong with one of these leads to this
    commit; where they are too many, the snapshot that was read stands for them.
    """
    inputs = [one for group in landing for one in group.order.inputs]
    writers = sorted({int(head.data[one.path][1].entry["snapshot_id"]) for one in inputs})
    leased = [group for group in landing if group.lease_key]
    base = int(commit.base["snapshot-id"])
    found = {
        GROUPS: ",".join(group.name for group in landing),
        READ_FROM: str(base),
        "input.snapshot_ids": ",".join(map(str, writers if len(writers) <= MOST_INPUT_SNAPSHOTS else [base])),
        "input.row_count": str(sum(one.rows for one in inputs)),
        "input.bytes_compressed": str(sum(one.size for one in inputs)),
        LEASE_KEY: ",".join(group.lease_key for group in leased),
        LEASE_EPOCH: ",".join(str(group.epoch) for group in leased),
    }
    return {name: value for name, value in found.items() if value}
