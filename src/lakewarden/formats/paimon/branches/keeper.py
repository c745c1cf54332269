"""Branches of Paimon tables: judged as others are, and reported. Whoever removes one deletes files of its directory, which is Paimon's."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from lakewarden.formats.paimon.metadata.known import KnownTables
from lakewarden.formats.paimon.metadata.table import Branch, PaimonTable, Snapshot
from lakewarden.model.branches import BranchPlace, BranchSight, BranchState
from lakewarden.model.errors import LakewardenError, UnsupportedTableError
from lakewarden.model.table import TableState

REPORT_ONLY = "branches of Paimon tables are removed by Paimon alone: CALL sys.delete_branch('db.table', 'branch')"


class PaimonBranches:
    """The branches of every table of one catalog, as far as they can be looked at."""

    def __init__(self, known: KnownTables) -> None:
        self._known = known

    def survey(self, states: Sequence[TableState]) -> list[BranchPlace]:
        return [self._place(state) for state in states]

    def _place(self, state: TableState) -> BranchPlace:
        name, uuid, at = state.identifier, state.uuid, state.metadata_location
        if state.refusal is not None:
            return BranchPlace(name, uuid, at, refusal=state.refusal)
        try:
            sights = tuple(_sights(name, self._known.at(at)))
        except LakewardenError as error:
            return BranchPlace(name, uuid, at, refusal=error.refusal())
        return BranchPlace(name, uuid, at, sights, report_only=REPORT_ONLY)

    def look(self, identifier: str) -> BranchPlace | None:
        raise _left(identifier)

    def shows(self) -> str | None:
        return None

    def still_read(self, place: BranchPlace, sight: BranchSight) -> str | None:
        return None

    def unchanged_since(self, place: BranchPlace, sight: BranchSight, instant: datetime) -> bool | None:
        return False

    def remove(
        self, place: BranchPlace, names: Collection[str], now: datetime, properties: Mapping[str, str]
    ) -> Mapping[str, int]:
        raise _left(place.identifier)

    def restore(self, identifier: str, record: Mapping[str, Any], now: datetime) -> None:
        raise _left(identifier)


def _left(identifier: str) -> UnsupportedTableError:
    return UnsupportedTableError(f"{identifier}: {REPORT_ONLY}; nothing was changed")


def _sights(name: str, table: PaimonTable) -> Iterator[BranchSight]:
    witnesses = _lists(table, table.main.latest)
    for branch in table.branches[1:]:
        latest = branch.latest
        record = {"branch": branch.name, "at": str(latest.id if latest else -1)}
        if latest is None:
            # One that lost its snapshots, as far as anything tells of them, refuses its table before.
            why = "it has no snapshot yet"
            yield BranchSight(branch.name, name, -1, branch.schema.time_ms, BranchState.HEALTHY, why, (), record)
        else:
            standing, why = _standing(branch, table.main)
            needs = _lists(table, latest)
            yield BranchSight(branch.name, name, latest.id, latest.time_ms, standing, why, needs, record, witnesses)


def _lists(table: PaimonTable, snapshot: Snapshot | None) -> tuple[str, ...]:
    names = (snapshot.base, snapshot.delta) if snapshot is not None else ()
    return tuple(table.manifest(name) for name in names if name)


def _standing(branch: Branch, main: Branch) -> tuple[BranchState, str]:
    """A branch begins with a copy of a snapshot of main, under the same number."""
    if main.latest is None:
        return BranchState.DIVERGED, "main has no snapshot that it could be compared with"
    shared = {snapshot.id: snapshot.raw for snapshot in main.snapshots}
    bases = [snapshot for snapshot in branch.snapshots if shared.get(snapshot.id) == snapshot.raw]
    if not bases:
        return BranchState.DETACHED, "none of its snapshots is in main's history any more"
    if bases[-1] is branch.latest:
        return BranchState.HEALTHY, "its newest snapshot is in main's history"
    if bases[-1].id == main.latest.id:
        return BranchState.HEALTHY, "it is ahead of main"
    return BranchState.DIVERGED, f"it left main at snapshot {bases[-1].id}, and both have commits since"
