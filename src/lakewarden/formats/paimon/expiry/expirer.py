"""Expires snapshots of a Paimon table: hints first, then the snapshot files, oldest first. Data files are not touched.

A snapshot file is compared, byte by byte, with what was planned before it goes: after a rollback, or when a table was
dropped and made again, `snapshot-5` is another commit under the same name. A rollback between that look and the removal
is found afterwards, and what readers have fallen back to is put back.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from fnmatch import fnmatchcase
from typing import Any

from lakewarden.formats.paimon.expiry.retention import (
    Retention,
    consumers_guard_changelogs_only,
    decoupled,
    expirable,
    expirable_changelogs,
)
from lakewarden.formats.paimon.metadata.history import snapshot_digest
from lakewarden.formats.paimon.metadata.holders import changelog_holders, holders
from lakewarden.formats.paimon.metadata.known import KnownTables
from lakewarden.formats.paimon.metadata.listing import list_metadata
from lakewarden.formats.paimon.metadata.table import MAIN, Branch, PaimonTable, Snapshot
from lakewarden.model.errors import LakewardenError, PlanOutdatedError
from lakewarden.model.expiry import Changes, Detail, Expiration, ExpirySteps, SnapshotLine
from lakewarden.model.policy import ExpiryPolicy
from lakewarden.model.ports import FileOutcome, Files, JournalFile
from lakewarden.model.table import Holder, Pointer, TableState
from lakewarden.model.verdict import Kind, Outcome

Retire = Callable[[Sequence[JournalFile]], Sequence[FileOutcome]]
BY_OUR_HAND = (Outcome.DELETED, Outcome.HIDDEN)


class PaimonExpirer:
    """Expiry on the files of a table, as a filesystem catalog has it."""

    def __init__(self, files: Files, known: KnownTables) -> None:
        self._files = files
        self._known = known

    def survey(self, state: TableState, policy: ExpiryPolicy, now: datetime) -> Expiration:
        """What may go now, on every branch by its own options."""
        try:
            return survey(self._known.at(state.metadata_location), policy, now)
        except LakewardenError as error:
            return Expiration(refusal=error.refusal())

    def outdated(self, pointer: Pointer, detail: Detail, *, resumed: bool) -> str | None:
        """Why the plan does not fit the table any more."""
        return next(_differences(self._known.now(_location(pointer)), detail, resumed=resumed), None)

    def carry_out(self, pointer: Pointer, detail: Detail, steps: ExpirySteps) -> Changes:
        """Expire what was planned, branch by branch. Raises PlanOutdatedError if the table moved meanwhile."""
        table = self._known.now(_location(pointer))
        if (why := next(_differences(table, detail, resumed=True), None)) is not None:
            raise PlanOutdatedError(f"{pointer.identifier}: {why}; nothing of this table was changed")
        if early := [
            n for n in steps.in_use_snapshots for p in detail["branches"] if p["end"] is not None and n < p["end"]
        ]:
            raise PlanOutdatedError(
                f"{pointer.identifier}: files are being rewritten from snapshot {early[0]}, which was to go; "
                "nothing of this table was changed"
            )
        branches = {branch.name: branch for branch in table.branches}
        if (why := next(_not_archived(branches, detail, steps), None)) is not None:
            raise PlanOutdatedError(f"{pointer.identifier}: {why}; nothing of this table was changed")
        for planned in detail["branches"]:
            self._expire(table, branches[planned["name"]], planned, steps.retire)
        counts = {kind: sum(len(p[kind]) for p in detail["branches"]) for kind in ("snapshots", "changelogs")}
        return {kind: count for kind, count in counts.items() if count or kind == "snapshots"}

    def _expire(self, table: PaimonTable, branch: Branch, planned: Detail, retire: Retire) -> None:
        ids = {item["id"] for item in planned["snapshots"]}
        gone = {item["id"] for item in planned["changelogs"]}
        going = [s for s in branch.snapshots if s.id in ids]
        if planned["end"] is not None:
            # First: readers that start now must begin behind what is about to go.
            self._files.put(f"{branch.directory}snapshot/EARLIEST", str(planned["end"]).encode())
        if planned["decoupled"]:
            self._keep_changelogs(branch, going)
        outcomes = retire(self._entries(f"{branch.directory}snapshot/", "snapshot", going))
        if planned["end"] is not None and not self._stands(branch, planned):
            self._put_back(table, branch, going, outcomes)
            raise PlanOutdatedError(
                f"branch {branch.name} was rolled back while it was expired; it was left as it is now"
            )
        _all_gone(outcomes)
        if gone:
            left = [c.id for c in branch.changelogs if c.id not in gone]
            self._files.put(f"{branch.directory}changelog/EARLIEST", str(min(left)).encode())
            old = [c for c in branch.changelogs if c.id in gone]
            _all_gone(retire(self._entries(f"{branch.directory}changelog/", "changelog", old)))

    def _stands(self, branch: Branch, planned: Detail) -> bool:
        """Whether the snapshot that was to stay is still there, and still that commit."""
        try:
            found = self._files.get(_snapshot_uri(branch, planned["end"]))
        except FileNotFoundError:
            return False
        return _digest(found) == str(planned["end_digest"])

    def _put_back(
        self, table: PaimonTable, branch: Branch, going: Sequence[Snapshot], outcomes: Sequence[FileOutcome]
    ) -> None:
        """Snapshots that we removed under a rollback: up to the one that readers have fallen back to.

        Later ones the rollback has removed itself, or would have. In another table's place nothing is put.
        """
        branches = {found.name: found for found in list_metadata(table.location, self._files)}
        first = min(branches[MAIN].schema, key=lambda file: int(file.key), default=None)
        if branch.name not in branches or first is None or self._files.get(first.uri) != table.first_schema:
            return
        hints = [file.uri for file in branches[branch.name].hints if file.key == "LATEST"]
        newest = self._files.get(hints[0]).strip() if hints else b""
        removed = {outcome.uri for outcome in outcomes if outcome.outcome in BY_OUR_HAND}
        for s in going:
            if _snapshot_uri(branch, s.id) in removed and (not newest.isdigit() or s.id <= int(newest)):
                self._files.create(_snapshot_uri(branch, s.id), s.raw)

    def _keep_changelogs(self, branch: Branch, going: Sequence[Snapshot]) -> None:
        """Snapshots that live on as changelogs: written before the snapshot goes, so that neither is ever missing."""
        for s in going:
            uri = f"{branch.directory}changelog/changelog-{s.id}"
            if not self._files.create(uri, s.raw) and self._files.get(uri) != s.raw:
                raise PlanOutdatedError(f"{uri} holds another commit; no further snapshot of this table was expired")
        if going:
            self._files.put(f"{branch.directory}changelog/LATEST", str(going[-1].id).encode())
            if not branch.changelogs:
                self._files.put(f"{branch.directory}changelog/EARLIEST", str(going[0].id).encode())

    def _entries(self, directory: str, kind: str, several: Sequence[Snapshot]) -> list[JournalFile]:
        """Metadata files to retire. Their tags are read before their bytes: what is replaced after that is not removed."""
        there = {file.key: file for file in self._files.entries(directory).files} if several else {}
        names = [f"{kind}-{s.id}" for s in several]
        found: list[JournalFile] = []
        for name, s, data in zip(names, several, self._files.get_many([directory + n for n in names]), strict=True):
            if isinstance(data, Exception) and not isinstance(data, FileNotFoundError):
                raise data
            if (file := there.get(name)) is None or data != s.raw:
                raise PlanOutdatedError(
                    f"{directory}{name} was replaced while it was expired; no further snapshot of it was touched"
                )
            found.append(JournalFile(directory + name, file.size, file.modified, file.etag, "", str(Kind.METADATA)))
        return found


def _snapshot_uri(branch: Branch, number: int) -> str:
    return f"{branch.directory}snapshot/snapshot-{number}"


def _all_gone(outcomes: Sequence[FileOutcome]) -> None:
    """Raise if one of the files is still there, or is another one by now."""
    left = [outcome for outcome in outcomes if outcome.outcome not in (*BY_OUR_HAND, Outcome.ABSENT)]
    if left:
        why = left[0].message or f"it was {left[0].outcome}"
        raise PlanOutdatedError(f"{left[0].uri} could not be removed ({why}); plan again to go on")


def survey(table: PaimonTable, policy: ExpiryPolicy, now: datetime) -> Expiration:
    """What may go of a table as it was read."""
    snapshots: dict[str, Retention] = {}
    changelogs: dict[str, Retention] = {}
    kept: list[SnapshotLine] = []
    expired: list[SnapshotLine] = []
    for branch in table.branches:
        found = _kept_by_name(branch, policy) or expirable(branch, policy, now)
        apart = expirable_changelogs(branch, policy, now)
        if (refusal := found.refusal or apart.refusal) is not None:
            return Expiration(refusal=refusal)
        snapshots[branch.name], changelogs[branch.name] = found, apart
        by_id = {s.id: s for s in branch.snapshots}
        expired += [_line(branch, by_id[i], "expired") for i in found.expired]
        kept += [_line(branch, by_id[i], why) for i, why in found.kept.items() if i in by_id]
    ids = {name: frozenset(found.expired) for name, found in snapshots.items()}
    gone = {name: frozenset(found.expired) for name, found in changelogs.items()}
    return Expiration(
        expired=tuple(expired),
        kept=tuple(kept),
        holders=(*holders(table, ids, gone), *_become_changelogs(table, snapshots, policy)),
        changelogs=sum(len(several) for several in gone.values()),
        detail={"branches": [_detail(b, snapshots[b.name], changelogs[b.name], policy) for b in table.branches]},
    )


def _kept_by_name(branch: Branch, policy: ExpiryPolicy) -> Retention | None:
    if any(branch.name == pattern or fnmatchcase(branch.name, pattern) for pattern in policy.keep):
        return Retention(kept={s.id: f"branch {branch.name} is kept by the policy" for s in branch.snapshots})
    return None


def _become_changelogs(table: PaimonTable, snapshots: dict[str, Retention], policy: ExpiryPolicy) -> Iterator[Holder]:
    """Expired snapshots of a branch whose changelogs outlive them still need what a changelog needs."""
    for branch in table.branches:
        if decoupled(branch.schema.options, policy):
            expired = snapshots[branch.name].expired
            yield from changelog_holders(table, branch, [s for s in branch.snapshots if s.id in expired])


def _detail(branch: Branch, snapshots: Retention, changelogs: Retention, policy: ExpiryPolicy) -> dict[str, Any]:
    end = next((s for s in branch.snapshots if s.id == snapshots.end), None)
    return {
        "name": branch.name,
        "end": snapshots.end,
        "end_digest": _digest(end.raw) if end else None,
        "snapshots": _listed(s for s in branch.snapshots if s.id in snapshots.expired),
        "changelogs": _listed(c for c in branch.changelogs if c.id in changelogs.expired),
        "decoupled": decoupled(branch.schema.options, policy),
        "unguarded": consumers_guard_changelogs_only(branch.schema.options, policy),
    }


def _listed(several: Iterable[Snapshot]) -> list[dict[str, Any]]:
    return [{"id": s.id, "digest": _digest(s.raw)} for s in several]


def _differences(table: PaimonTable, detail: Detail, *, resumed: bool) -> Iterator[str]:
    """How the table differs from the one that was planned, where that matters."""
    branches = {branch.name: branch for branch in table.branches}
    for planned in detail["branches"]:
        name = planned["name"]
        if not planned["snapshots"] and not planned["changelogs"]:
            continue
        if (branch := branches.get(name)) is None:
            yield f"branch {name} is gone"
            continue
        yield from _replaced(planned["snapshots"], branch.snapshots, f"snapshot of branch {name}", resumed)
        yield from _replaced(planned["changelogs"], branch.changelogs, f"changelog of branch {name}", resumed)
        last = max((item["id"] for item in planned["changelogs"]), default=0)
        if early := [who for who, at in branch.consumers.items() if at <= last]:
            yield f"consumer {early[0]} of branch {name} reads from a changelog that was to go"
        if planned["end"] is None:
            continue
        end = next((s for s in branch.snapshots if s.id == planned["end"]), None)
        if end is None or _digest(end.raw) != planned["end_digest"]:
            yield f"snapshot {planned['end']} of branch {name}, which was to stay, is gone or another one"
        early = [who for who, at in branch.consumers.items() if at < planned["end"]]
        if early and not planned.get("unguarded"):
            yield f"consumer {early[0]} of branch {name} reads from a snapshot that was to go"


def _not_archived(branches: Mapping[str, Branch], detail: Detail, steps: ExpirySteps) -> Iterator[str]:
    """What was to go and is not in the archive, by now: its file may have been lost since the plan."""
    going = [
        s
        for planned in detail["branches"]
        for kind in ("snapshots", "changelogs")
        for s in getattr(branches[planned["name"]], kind)
        if s.id in {item["id"] for item in planned[kind]}
    ]
    if (archived := steps.archived({s.id for s in going}) if going else None) is not None:
        yield from (f"snapshot {s.id} is {why}" for s in going if (why := archived.why_not(snapshot_digest(s))))


def _replaced(planned: Sequence[Detail], there: Sequence[Snapshot], what: str, resumed: bool) -> Iterator[str]:
    found = {s.id: _digest(s.raw) for s in there}
    for item in planned:
        if item["id"] not in found:
            if not resumed:
                yield f"{what} {item['id']} is gone already"
        elif found[item["id"]] != item["digest"]:
            yield f"{what} {item['id']} is another commit by now"


def _line(branch: Branch, snapshot: Snapshot, reason: str) -> SnapshotLine:
    return SnapshotLine(branch.name, snapshot.id, snapshot.time_ms, reason)


def _digest(raw: bytes) -> str:
    return hashlib.sha256(raw).hexdigest()


def _location(pointer: Pointer) -> str:
    return pointer.metadata_location.rpartition("#")[0]
