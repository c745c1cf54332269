"""Expires snapshots and refs of an Iceberg table: one commit of metadata. No file is touched.

The plan says what may go. The commit takes what may still go then: a snapshot that a new branch or tag leads to, or that
a rollback made current again, stays.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from lakewarden.formats.iceberg.commit.next_document import without
from lakewarden.formats.iceberg.commit.versions import MovedOnError, Versions
from lakewarden.formats.iceberg.expiry.retention import STAGED, Retention, retention
from lakewarden.formats.iceberg.metadata.document import GARBLED, snapshots_of, table_state
from lakewarden.formats.iceberg.metadata.known import KnownVersions, Version
from lakewarden.formats.iceberg.metadata.refs import refs_of
from lakewarden.model.errors import LakewardenError, PlanOutdatedError, TableMovedError, UnreadableMetadataError
from lakewarden.model.expiry import Changes, Detail, Expiration, ExpirySteps, RefLine, SnapshotLine
from lakewarden.model.policy import ExpiryPolicy
from lakewarden.model.table import Pointer, TableState, name_within

TRIES = 10
FIRST_WAIT, LONGEST_WAIT = 0.05, 2.0


class IcebergExpirer:
    """Expiry through one catalog."""

    def __init__(self, known: KnownVersions, versions: Callable[[], Versions]) -> None:
        """`versions` opens the catalog, or raises UnsupportedTableError for a kind that cannot be changed safely."""
        self._known = known
        self._versions = versions

    def survey(self, state: TableState, policy: ExpiryPolicy, now: datetime) -> Expiration:
        """What may go now, of every branch, tag and staged snapshot."""
        try:
            self._versions()
            return survey(state, self._known.loaded(state.metadata_location), policy, now)
        except LakewardenError as error:
            return Expiration(refusal=error.refusal())
        except GARBLED as error:
            reason = f"{state.metadata_location} lacks or garbles a field ({error}); nothing was touched"
            return Expiration(refusal=UnreadableMetadataError(reason).refusal())

    def outdated(self, pointer: Pointer, detail: Detail, *, resumed: bool) -> str | None:
        """Nothing but another table in its place: whatever else changed is taken into account by the commit."""
        found = self._known.fresh(pointer.metadata_location).document.get("table-uuid")
        return None if found == detail["uuid"] else "it was dropped and made again"

    def carry_out(self, pointer: Pointer, detail: Detail, steps: ExpirySteps) -> Changes:
        """Expire what was planned and may still go. Raises TableMovedError if the table does not hold still."""
        versions = self._versions()
        table = name_within(pointer.identifier)
        tries = Retrying(
            retry=retry_if_exception_type(MovedOnError),
            stop=stop_after_attempt(TRIES),
            wait=wait_random_exponential(FIRST_WAIT, LONGEST_WAIT),
            reraise=True,
        )
        try:
            return tries(self._once, versions, table, detail, steps)
        except GARBLED as error:
            # Whatever made it so since the plan: the other tables of the run are none of its business.
            reason = f"the metadata of {pointer.identifier} lacks or garbles a field ({error}); nothing was touched"
            raise UnreadableMetadataError(reason) from error
        except MovedOnError as conflict:
            busy = f"{pointer.identifier} changed {TRIES} times while its snapshots were about to expire ({conflict})"
            gone = (steps.announced or frozenset()) - _ids(self._settled(versions, table, detail, steps))
            if gone:
                # By an engine, or by a commit of ours that was refused as far as anybody said: not certainly untouched.
                raise PlanOutdatedError(
                    f"{busy}; {len(gone)} of them are gone, and its other ones were left"
                ) from conflict
            raise TableMovedError(f"{busy}; nothing of it was changed") from conflict

    def _settled(self, versions: Versions, table: str, detail: Detail, steps: ExpirySteps) -> Version:
        """The table as it is now, with what an earlier commit of this run may have taken along."""
        version = versions.current(table)
        announced = steps.announced
        if version.document.get("table-uuid") != detail["uuid"]:
            # After a try of ours it is not certain that nothing was changed.
            moved = TableMovedError if announced is None else PlanOutdatedError
            raise moved(f"{table} was dropped and made again; nothing of the table that is there now was changed")
        if announced is None:
            return version
        return versions.settle(table, version, announced, detail["refs"], partial(_may_go, detail, steps))

    def _once(self, versions: Versions, table: str, detail: Detail, steps: ExpirySteps) -> Changes:
        announced = steps.announced
        version = self._settled(versions, table, detail, steps)
        if (refusal := table_state(table, version.location, version.document).refusal) is not None:
            # Garbage collection was switched off since the plan, say. It would not be planned now, nor is it committed.
            unreadable = refusal.code == UnreadableMetadataError.code
            raise (UnreadableMetadataError if unreadable else PlanOutdatedError)(refusal.message)
        found = _still(version, detail, steps)
        snapshots = set(detail["snapshots"]) & found.expired.keys()
        refs = detail["refs"].keys() & found.refs_expired.keys()
        if snapshots or refs:
            steps.archive(version.raw, sorted(snapshots))
            version = versions.expire(table, version, snapshots, refs, steps.now)
        # A snapshot that is gone without this commit was expired by an engine and is not counted. After a crash it may
        # have been this run's own earlier commit: what that commit had announced is counted.
        if announced is not None:
            snapshots, refs = snapshots | announced, set(detail["refs"])
        return {"snapshots": len(snapshots - _ids(version)), "refs": len(refs - refs_of(version.document).keys())}


def _ids(version: Version) -> set[int]:
    return {int(s["snapshot-id"]) for s in snapshots_of(version.document)}


def _may_go(detail: Detail, steps: ExpirySteps, version: Version) -> Collection[str]:
    """The planned refs that may go from a version of the table."""
    planned: Mapping[str, int] = detail["refs"]
    return planned.keys() & _still(version, detail, steps).refs_expired.keys()


def _still(version: Version, detail: Detail, steps: ExpirySteps) -> Retention:
    """What may go of a table as it is now, by the rules and at the instant of the plan."""
    policy = ExpiryPolicy.of({**detail["policy"], "enabled": True})
    # An id that a ref points at since the plan stays, and the others go.
    taken = {int(ref["snapshot-id"]) for ref in refs_of(version.document).values()}
    ids = tuple(number for number in policy.expire_ids if number not in taken)
    policy = replace(
        policy,
        max_expire=None,
        expire_ids=ids,
        in_use_since=steps.in_use_since,
        in_use_snapshots=steps.in_use_snapshots,
        archived=steps.archived(_ids(version)),
    )
    at = datetime.fromtimestamp(detail["at_ms"] / 1000, UTC)
    planned: Mapping[str, int] = detail["refs"]
    return retention(version.document, policy, at, removable=planned)


def survey(state: TableState, version: Version, policy: ExpiryPolicy, now: datetime) -> Expiration:
    """What may go of a table as it was read."""
    document = version.document
    found = retention(document, policy, now)
    times = {int(s["snapshot-id"]): int(s["timestamp-ms"]) for s in snapshots_of(document)}
    refs = refs_of(document)
    at_ms = int(now.timestamp() * 1000)
    left = without(document, version.location, found.expired.keys(), found.refs_expired.keys(), at_ms)
    # Whatever the table would hold then; the file that is current now is named by its log.
    after = table_state(state.identifier, state.metadata_location, left)
    if after.refusal is not None:
        return Expiration(refusal=after.refusal)

    def lines(several: Mapping[int, tuple[str, str]]) -> tuple[SnapshotLine, ...]:
        newest = sorted(several.items(), key=lambda item: (-times[item[0]], item[0]))
        return tuple(SnapshotLine(branch or STAGED, n, times[n], why) for n, (branch, why) in newest)

    def ref_lines(several: Mapping[str, str]) -> tuple[RefLine, ...]:
        return tuple(RefLine(n, str(refs[n]["type"]), int(refs[n]["snapshot-id"]), why) for n, why in several.items())

    detail: dict[str, Any] = {
        "uuid": state.uuid,
        "at_ms": at_ms,
        "policy": policy.as_values(),
        "snapshots": sorted(found.expired),
        "refs": {name: int(refs[name]["snapshot-id"]) for name in found.refs_expired},
    }
    return Expiration(
        expired=lines(found.expired),
        kept=lines(found.kept),
        refs_expired=ref_lines(found.refs_expired),
        refs_kept=ref_lines(found.refs_kept),
        holders=after.held,
        detail=detail,
    )
