"""Who needs files, as rows that can be read: every holder under a number of its own. No Spark."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lakewarden.model.table import Hold, Holder, TableState
from lakewarden.pipeline import columns as c
from lakewarden.pipeline.read.manifests import NOTE, ReadTask, read_lists, read_manifests
from lakewarden.pipeline.read.to_read import ToRead, table_of

HOLDER = "holder"
HOLDERS = pa.schema([(HOLDER, pa.int32()), (c.TABLE, pa.int32()), ("hold", pa.string()), (c.MARK, pa.int32())])

TableHolders = tuple[int, TableState, Sequence[Holder]]


@dataclass(frozen=True)
class Holdings:
    """Holders with what has to be read for each. In `wanted`, a table's number is the holder's."""

    wanted: ToRead
    rows: pa.Table

    @staticmethod
    def of(holders: Iterable[TableHolders], homes: Mapping[str, str], before: Iterable[TableHolders] = ()) -> Holdings:
        """Holders of some tables, each table with its number; what only those of `before` need is released."""
        numbered = [
            (number, state, holder, mark)
            for mark, tables in ((c.MARK_LIVE, holders), (c.MARK_RELEASED, before))
            for number, state, several in tables
            for holder in several
        ]
        states = (
            (i, replace(state, manifest_lists=h.manifest_lists, manifests=h.manifests, files=h.files))
            for i, (_, state, h, _) in enumerate(numbered)
        )
        rows = [(i, number, str(holder.hold), mark) for i, (number, _, holder, mark) in enumerate(numbered)]
        return Holdings(ToRead.of(states, homes), table_of(rows, HOLDERS))

    @property
    def tables(self) -> list[int]:
        """Each holder's table."""
        found: list[int] = self.rows[c.TABLE].to_pylist()
        return found


@dataclass(frozen=True)
class Needs:
    """What one table needs: keys of files, and tasks' notes."""

    keys: pa.Array
    notes: tuple[str, ...]


def needs_of(state: TableState, homes: Mapping[str, str], read: ReadTask) -> Needs:
    """What a table needs now, read here."""
    holdings = Holdings.of([(0, state, state.held)], homes)
    holds = np.array(holdings.rows["hold"].to_pylist(), object)
    lists = pa.Table.from_batches(read_lists(read)(iter(holdings.wanted.lists.to_batches())), schema=c.MANIFESTS)
    damaged, manifests = _parted(pa.concat_tables([lists, holdings.wanted.manifests]), "path")
    marks = pa.Table.from_batches(read_manifests(read)(iter(manifests.to_batches())), schema=c.MARKS)
    worse, marks = _parted(marks, c.KEY)
    deleted = pc.not_equal(pc.bit_wise_and(marks[c.MARK], c.MARK_DELETED), 0).to_numpy()
    hold = holds[marks[c.TABLE].to_numpy()]
    net = (hold == Hold.NET).astype(bool)
    plain = marks.filter(pa.array(~net & ~(deleted & (hold == Hold.ADDED))))[c.KEY]
    keys = [plain, holdings.wanted.named[c.KEY], _merged(marks.filter(pa.array(net)), deleted[net])]
    chunks = [chunk for column in keys for chunk in column.chunks]
    return Needs(pa.concat_arrays([pa.array([], pa.string()), *chunks]), (*damaged, *worse))


def _merged(marks: pa.Table, deleted: NDArray[np.bool_]) -> pa.ChunkedArray:
    """Keys that one holder adds more often than it deletes them."""
    signed = marks.append_column("sign", pa.array(np.where(deleted, -1, 1)))
    sums = signed.group_by([c.TABLE, c.KEY]).aggregate([("sign", "sum")])
    return sums.filter(pc.greater(sums["sign_sum"], 0))[c.KEY]


def _parted(table: pa.Table, column: str) -> tuple[list[str], pa.Table]:
    """The notes, and the rows without them."""
    noted = pc.starts_with(table[column], NOTE)
    return table.filter(noted)[column].to_pylist(), table.filter(pc.invert(noted))
