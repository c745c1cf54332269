"""Directly before released files go: are the copies that the plan counted still in the cold place?

Between plan and apply a day may pass, and somebody's lifecycle rule or hand may have been there. The plan names the places
in which the copies were; a snapshot that expired since needs none of these files, which it would have kept alive.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pyarrow as pa

from lakewarden.jobs.physical_deletion.cold_copies import THREADS, ColdCopies, ColdTable, prefix_of, why_closed
from lakewarden.ledger.database import Ledger
from lakewarden.model.errors import ColdCopyLostError
from lakewarden.model.files import BatchFiles
from lakewarden.model.plan import Plan
from lakewarden.model.ports import FileOutcome
from lakewarden.model.verdict import Outcome
from lakewarden.storage.stores import Stores

COLD_PLACES = "cold_places"
_NO_COPY = "no verified copy of it is in the cold place"


@dataclass(frozen=True, slots=True)
class ColdRecheck:
    """The tables of a plan whose files need a cold copy, each with the places in which the plan found them."""

    ledger: Ledger
    stores: Stores
    places: Mapping[str, ColdTable]

    @staticmethod
    def of(ledger: Ledger, stores: Stores, plan: Plan) -> ColdRecheck:
        """A table that asks for copies and has no place in the plan has nowhere to look: all its files stay."""
        found = {
            table.identifier: ColdTable(frozenset((uuid, place) for uuid, place in table.detail.get(COLD_PLACES, ())))
            for table in plan.tables
            if COLD_PLACES in table.detail or table.policy.get("require_cold_copy")
        }
        return ColdRecheck(ledger, stores, found)

    def held(self, files: BatchFiles) -> dict[str, FileOutcome]:
        """Those of these files that may not go now, each with what became of its copy."""
        asked = [place for place, table in enumerate(files.tables) if table in self.places] if self.places else []
        if not asked:
            return {}
        mine = files.take(asked)
        cold = self._now(sorted(set(mine.tables)))
        columns = {"uri": list(mine.uris), "table": list(mine.tables), "kind": list(mine.kinds)}
        goes = cold.may_go(pa.table(columns)).to_pylist()
        return {
            uri: FileOutcome(uri, Outcome.FAILED, ColdCopyLostError.code, _why(cold, table, uri))
            for uri, table, free in zip(mine.uris, mine.tables, goes, strict=True)
            if not free
        }

    def _now(self, tables: Sequence[str]) -> ColdCopies:
        """What the cold place has of these tables now."""
        with ThreadPoolExecutor(THREADS) as pool:
            closed = dict(zip(tables, pool.map(self._closed, tables), strict=True))
        handed = {table: self.places[table] for table in tables if closed[table] is None}
        blocked = {table: why for table, why in closed.items() if why is not None}
        return ColdCopies(self.ledger, pa.array(tables, pa.string()), handed, blocked, self.stores)

    def _closed(self, table: str) -> str | None:
        """Why the table's snapshots can no longer be opened where the plan found them."""
        places = self.places[table].places
        if not places:
            return "the plan does not say where its copies are"
        snapshots = [one for uuid in sorted({uuid for uuid, _ in places}) for one in self.ledger.cold.snapshots(uuid)]
        return why_closed(self.stores, [one for one in snapshots if (one.uuid, prefix_of(one)) in places])


def _why(cold: ColdCopies, table: str, uri: str) -> str:
    found = cold.lost.get((table, uri))
    if found is None and table not in cold.handed:
        found = cold.blocked.get(table)
    return f"{found or _NO_COPY}; the file was not deleted"
