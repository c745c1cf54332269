"""Versions of a table behind a REST catalog: the server makes the next one, from whatever is current when it does.

A request can assert the refs that we know of. It cannot assert that there are no others, and a server drops a ref whose
snapshot goes without a word. So each commit is looked at afterwards: what was made in between and lost is put back. A
commit that nobody answered for is looked for, for a while: a server may make it long after our patience ended.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from tenacity import RetryError, Retrying, retry_if_exception_type, retry_if_result, stop_after_delay, wait_exponential

from lakewarden.formats.iceberg.commit.versions import MovedOnError
from lakewarden.formats.iceberg.metadata.known import Version, read_version
from lakewarden.formats.iceberg.metadata.refs import refs_of
from lakewarden.model.errors import (
    CatalogUnavailableError,
    DoubtfulCommitError,
    LakewardenError,
    LostRefError,
    PlanOutdatedError,
    UnreadableMetadataError,
)
from lakewarden.model.ports import Files
from lakewarden.model.table import parts_of

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table
    from pyiceberg.table.update import TableRequirement, TableUpdate

TRIES = 5
FIRST_LOOK, LONGEST_LOOK, LOOK_FOR = 0.5, 10.0, 60.0  # seconds, after a commit without an answer
SEQUENCE_NUMBERS = 2
ROW_LINEAGE = 3


class _LostError(Exception):
    """A ref went with our commit and is not back."""


class RestVersions:
    """Tables of a REST catalog."""

    def __init__(self, catalog: Catalog, files: Files) -> None:
        self._catalog = catalog
        self._files = files

    def current(self, table: str) -> Version:
        return read_version(self._files, self._load(table).metadata_location)

    def expire(
        self, table: str, version: Version, snapshots: Collection[int], refs: Collection[str], now: datetime
    ) -> Version:
        made = self._remove(table, version, snapshots, refs)
        changes = {"snapshots": len(snapshots), "refs": len(refs)}
        try:
            after = read_version(self._files, made)
            return self.current(table) if self._put_back(table, version, after, snapshots, refs) else after
        except _LostError as error:
            raise LostRefError(str(error), changes) from error
        except LakewardenError as error:
            raise LostRefError(_unseen(table, error), changes) from error

    def add(self, table: str, version: Version, snapshot: Mapping[str, Any]) -> Version:
        return read_version(
            self._files, self._commit(table, _unmoved(version.document), list(_newest(version.document, snapshot)))
        )

    def store_properties(self, table: str) -> Mapping[str, str]:
        return {**self._catalog.properties, **{k: str(v) for k, v in self._load(table).io.properties.items()}}

    def _remove(self, table: str, seen: Version, snapshots: Collection[int], refs: Collection[str]) -> str:
        """Where the version is that the server made without these."""
        try:
            return self._commit(table, _assertions(seen.document), list(_removals(seen.document, snapshots, refs)))
        except DoubtfulCommitError as doubt:
            # The commit was lost, or only the answer to it. If it was made, a ref may have gone with it.
            found = self._look_for(table, seen, snapshots, refs)
            if found is None:
                raise DoubtfulCommitError(_doubtful(table, doubt)) from doubt
            return found.location

    def _look_for(self, table: str, seen: Version, snapshots: Collection[int], refs: Collection[str]) -> Version | None:
        """The same as `_made_since`, as soon as it is there; None if it is not after all this while."""
        looks = Retrying(
            retry=retry_if_result(lambda found: found is None) | retry_if_exception_type(LakewardenError),
            stop=stop_after_delay(LOOK_FOR),
            wait=wait_exponential(FIRST_LOOK, LONGEST_LOOK),
        )
        try:
            return looks(self._made_since, table, seen, snapshots, refs)
        except RetryError:
            return None

    def _made_since(
        self, table: str, seen: Version, snapshots: Collection[int], refs: Collection[str]
    ) -> Version | None:
        """The first version after `seen` without these snapshots and refs, if there is one."""
        now = self.current(table)
        if now.location == seen.location:
            return None
        places = [str(entry["metadata-file"]) for entry in now.document.get("metadata-log") or []]
        # A short log may have forgotten `seen`: then all that it knows came later.
        since = places[places.index(seen.location) + 1 :] if seen.location in places else places
        for place in [*since, now.location]:
            version = now if place == now.location else read_version(self._files, place)
            if _ids(version.document).isdisjoint(snapshots) and refs_of(version.document).keys().isdisjoint(refs):
                return version
        return None

    def _put_back(
        self, table: str, seen: Version, after: Version, snapshots: Collection[int], refs: Collection[str]
    ) -> bool:
        """Whether refs that were made or changed after `seen` went with our commit, and are there again."""
        log = after.document.get("metadata-log") or []
        replaced = log[-1]["metadata-file"] if log else None
        if replaced == seen.location:
            return False
        before = read_version(self._files, str(replaced)).document
        if snapshots and _ids(before).isdisjoint(snapshots):
            raise UnreadableMetadataError("the log does not tell in which version they went")
        left, known = refs_of(after.document), refs_of(seen.document)
        lost = {
            name: ref
            for name, ref in refs_of(before).items()
            if name not in left and (name not in refs or ref != known.get(name))
        }
        for name, ref in lost.items():
            self._restore(table, name, ref, before)
        return bool(lost)

    def _restore(self, table: str, name: str, ref: Mapping[str, Any], before: Mapping[str, Any]) -> None:
        why: object = None
        for _ in range(TRIES):
            try:
                now = self.current(table)
                if name in refs_of(now.document):
                    return  # by us, or by its maker, who has seen it vanish
                self._commit(table, [_absent(name)], list(_addition(name, ref, before, now.document)))
                return
            except (MovedOnError, CatalogUnavailableError) as error:
                # A writer may have taken the sequence number that we chose, which servers call a bad request.
                why = error.message if isinstance(error, LakewardenError) else error
        raise _LostError(_lost(table, name, ref, why))

    def _commit(self, table: str, requirements: list[TableRequirement], updates: list[TableUpdate]) -> str:
        """Where the version is that the server made. Raises MovedOnError; CatalogUnavailableError if it said no, and
        DoubtfulCommitError if it may have been made or may still be."""
        from pyiceberg import exceptions as said

        no = (said.BadRequestError, said.UnauthorizedError, said.ForbiddenError, said.NoSuchTableError)
        loaded = self._load(table)
        try:
            answer = self._catalog.commit_table(loaded, tuple(requirements), tuple(updates))
        except said.CommitFailedException as error:
            raise MovedOnError(str(error)) from error
        except no as error:
            raise CatalogUnavailableError(
                f"catalog {self._catalog.name} did not take the commit on {table} ({type(error).__name__}: {error}); "
                "nothing was changed"
            ) from error
        except Exception as error:
            raise DoubtfulCommitError(
                f"catalog {self._catalog.name} did not take the commit on {table} ({type(error).__name__}: {error}); "
                "it may or may not have been made, and no file was touched"
            ) from error
        return str(answer.metadata_location)

    def _load(self, table: str) -> Table:
        from pyiceberg.exceptions import NoSuchTableError

        try:
            return self._catalog.load_table(parts_of(table))
        except NoSuchTableError as error:
            raise PlanOutdatedError(f"{self._catalog.name}.{table} is gone; nothing of it was changed") from error
        except Exception as error:
            raise CatalogUnavailableError(
                f"catalog {self._catalog.name} could not be read ({type(error).__name__}: {error}); nothing was changed"
            ) from error


def _assertions(document: Mapping[str, Any]) -> list[TableRequirement]:
    from pyiceberg.table.update import AssertRefSnapshotId, AssertTableUUID

    refs: list[TableRequirement] = [
        AssertRefSnapshotId(ref=name, snapshot_id=int(ref["snapshot-id"])) for name, ref in refs_of(document).items()
    ]
    return [AssertTableUUID(uuid=document["table-uuid"]), *refs]


def _unmoved(document: Mapping[str, Any]) -> list[TableRequirement]:
    from pyiceberg.table.update import AssertRefSnapshotId, AssertTableUUID

    current = document["current-snapshot-id"]
    return [AssertTableUUID(uuid=document["table-uuid"]), AssertRefSnapshotId(ref="main", snapshot_id=current)]


def _newest(document: Mapping[str, Any], snapshot: Mapping[str, Any]) -> Iterator[TableUpdate]:
    """The snapshot, and main moved to it; how long main keeps its snapshots would be forgotten if it were not said."""
    from pyiceberg.table.snapshots import Snapshot
    from pyiceberg.table.update import AddSnapshotUpdate, SetSnapshotRefUpdate

    main = {"type": "branch", **refs_of(document).get("main", {}), "snapshot-id": snapshot["snapshot-id"]}
    yield AddSnapshotUpdate(snapshot=Snapshot.model_validate(snapshot))
    yield SetSnapshotRefUpdate.model_validate({"action": "set-snapshot-ref", "ref-name": "main", **main})


def _removals(document: Mapping[str, Any], snapshots: Collection[int], refs: Collection[str]) -> Iterator[TableUpdate]:
    from pyiceberg.table.update import (
        RemovePartitionStatisticsUpdate,
        RemoveSnapshotRefUpdate,
        RemoveSnapshotsUpdate,
        RemoveStatisticsUpdate,
    )

    for key, update in (
        ("statistics", RemoveStatisticsUpdate),
        ("partition-statistics", RemovePartitionStatisticsUpdate),
    ):
        for entry in document.get(key) or []:
            if int(entry["snapshot-id"]) in snapshots:
                yield update(snapshot_id=int(entry["snapshot-id"]))
    for name in refs:
        yield RemoveSnapshotRefUpdate(ref_name=name)
    # Each on its own: servers of older versions take one id at a time.
    for number in sorted(snapshots):
        yield RemoveSnapshotsUpdate(snapshot_ids=[number])


def _ids(document: Mapping[str, Any]) -> set[int]:
    return {int(s["snapshot-id"]) for s in document.get("snapshots") or []}


def _absent(name: str) -> TableRequirement:
    from pyiceberg.table.update import AssertRefSnapshotId

    return AssertRefSnapshotId(ref=name, snapshot_id=None)


def _addition(
    name: str, ref: Mapping[str, Any], before: Mapping[str, Any], now: Mapping[str, Any]
) -> Iterator[TableUpdate]:
    from pyiceberg.table.snapshots import Snapshot
    from pyiceberg.table.update import AddSnapshotUpdate, SetSnapshotRefUpdate

    number = int(ref["snapshot-id"])
    if number not in _ids(now):
        raw = dict(next(s for s in before["snapshots"] if int(s["snapshot-id"]) == number))
        # A server counts on from the sequence number of the snapshot that it was given last, so an old one would set it
        # back; and it takes row ids only ahead of all others. The files' own numbers and ids are in the manifests.
        if int(now["format-version"]) >= SEQUENCE_NUMBERS:
            raw["sequence-number"] = int(now["last-sequence-number"]) + 1
        if int(now["format-version"]) >= ROW_LINEAGE:
            raw |= {"first-row-id": int(now["next-row-id"]), "added-rows": 0}
        yield AddSnapshotUpdate(snapshot=Snapshot.model_validate(raw))
    yield SetSnapshotRefUpdate.model_validate({"action": "set-snapshot-ref", "ref-name": name, **ref})


def _lost(table: str, name: str, ref: Mapping[str, Any], why: object) -> str:
    return (
        f"{ref['type']} {name} of {table}, made while its snapshots expired, was lost with snapshot {ref['snapshot-id']} "
        f"and could not be put back ({why})"
    )


def _unseen(table: str, error: LakewardenError) -> str:
    return (
        f"snapshots of {table} expired, and what else changed just then cannot be read ({error.message}), so a branch or "
        "tag made in that moment may be lost"
    )


def _doubtful(table: str, doubt: LakewardenError) -> str:
    return f"{doubt.message}; {table} was looked at for {LOOK_FOR:.0f} seconds without a trace of it"
