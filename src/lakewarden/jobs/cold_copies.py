"""Which released files may go where a policy asks for a cold copy first.

Data, delete, statistics and other files need a verified copy of their own. Metadata is written anew in the cold
place, and from the old one: it may go when every snapshot that expiry took from the table can be opened there. Where
no expired snapshot is known, as of a format that is not handed over, it stays.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lakewarden.ledger.database import Ledger
from lakewarden.model.table import TableState
from lakewarden.model.verdict import Kind

METADATA = (Kind.METADATA, Kind.MANIFEST_LIST, Kind.MANIFEST)


@dataclass(frozen=True, slots=True)
class ColdCopies:
    """The tables that ask for a copy, and those of them of which the cold place has every expired snapshot."""

    ledger: Ledger
    tables: pa.Array
    handed: pa.Array

    @staticmethod
    def of(ledger: Ledger, states: Iterable[TableState], asking: Collection[str]) -> ColdCopies:
        """What the ledger knows of the tables that ask, now."""
        asked = {state.identifier: state for state in states if state.identifier in asking}
        handed = sorted(name for name, state in asked.items() if _all_handed(ledger, state))
        return ColdCopies(ledger, pa.array(sorted(asked), pa.string()), pa.array(handed, pa.string()))

    def may_go(self, files: pa.Table) -> pa.ChunkedArray:
        """For each file, by `uri`, `table` and `kind`: whether nothing of it waits for the cold tier."""
        free = pc.invert(pc.is_in(files["table"], self.tables))
        if not len(self.tables) or pc.all(free, min_count=0).as_py():
            return free
        metadata = pc.is_in(files["kind"], pa.array([str(kind) for kind in METADATA]))
        asked = files.filter(pc.invert(pc.or_(free, metadata)))["uri"]
        copied = pa.array(self.ledger.cold.copied(asked.to_pylist()), pa.string())
        there = pc.if_else(metadata, pc.is_in(files["table"], self.handed), pc.is_in(files["uri"], copied))
        return pc.or_(free, there)


def _all_handed(ledger: Ledger, state: TableState) -> bool:
    """Whether every snapshot that left the table can be opened in the cold place: one that was archived and then did
    not go, because the commit failed, is not waited for."""
    archived = {snapshot for archive in ledger.archives.of(state.uuid) for snapshot in archive.snapshots}
    cold = {snapshot.snapshot_id for snapshot in ledger.cold.snapshots(state.uuid)}
    return bool(archived) and archived - state.snapshot_ids <= cold
