"""Who needs files: every holder under a number of its own, with what has to be read to know what it needs. No Spark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lakewarden.model.table import Hold, Holder, TableState
from lakewarden.pipeline import columns as c
from lakewarden.pipeline.read.to_read import ToRead, table_of

HOLDER = "holder"
HOLDERS = pa.schema([(HOLDER, pa.int32()), (c.TABLE, pa.int32()), ("hold", pa.string()), (c.MARK, pa.int32())])

TableHolders = tuple[int, TableState, Sequence[Holder]]


def needed(hold: Any, adds: Any, deletes: Any) -> Any:
    """The rule of `Hold`, for NumPy arrays and Spark columns alike: how often a holder's manifests add and delete a file."""
    every = (hold == str(Hold.ALL)) & (adds + deletes > 0)
    added = (hold == str(Hold.ADDED)) & (adds > 0)
    return every | added | ((hold == str(Hold.NET)) & (adds > deletes))


def kept(hold: str, ids: NDArray[Any], added: NDArray[np.bool_], ranks: NDArray[Any]) -> NDArray[np.intp]:
    """The places of what a holder needs, of all the entries of its manifests; of several entries of one file the one of
    the least rank, where it matters how often each is there."""
    if hold == Hold.ALL:
        return np.arange(len(ids))
    order = np.lexsort((ranks, ids))
    values, firsts, inverse = np.unique(ids[order], return_index=True, return_inverse=True)
    adds = np.bincount(inverse, weights=added[order], minlength=len(values))
    deletes = np.bincount(inverse, weights=~added[order], minlength=len(values))
    places: NDArray[np.intp] = order[firsts[needed(hold, adds, deletes)]]
    return places


def by_holder(of: NDArray[Any]) -> Iterator[tuple[int, NDArray[np.intp]]]:
    """Each holder, and the places of what is its own."""
    order = np.argsort(of, kind="stable")
    holders, starts = np.unique(of[order], return_index=True)
    yield from zip(holders.tolist(), np.split(order, starts)[1:], strict=True)


@dataclass(frozen=True)
class Holders:
    """Holders of some tables. In `to_read` and in the notes of tasks, a table's number is the holder's."""

    to_read: ToRead
    rows: pa.Table

    @staticmethod
    def of(holders: Iterable[TableHolders], homes: Mapping[str, str], before: Iterable[TableHolders] = ()) -> Holders:
        """Holders of some tables, each table with its number; what only those of `before` need is released."""
        return Holders.marked(
            [
                (number, state, holder, mark)
                for mark, tables in ((c.MARK_LIVE, holders), (c.MARK_RELEASED, before))
                for number, state, several in tables
                for holder in several
            ],
            homes,
        )

    @staticmethod
    def marked(numbered: Sequence[tuple[int, TableState, Holder, int]], homes: Mapping[str, str]) -> Holders:
        """Holders of some tables, each with its table's number and the mark that whatever it needs is given."""
        states = (
            (i, replace(state, manifest_lists=h.manifest_lists, manifests=h.manifests, files=h.files))
            for i, (_, state, h, _) in enumerate(numbered)
        )
        rows = [(i, number, str(holder.hold), mark) for i, (number, _, holder, mark) in enumerate(numbered)]
        return Holders(ToRead.of(states, homes), table_of(rows, HOLDERS))

    @cached_property
    def tables(self) -> NDArray[np.int32]:
        """Each holder's table."""
        found: NDArray[np.int32] = self.rows[c.TABLE].to_numpy()
        return found

    @cached_property
    def holds(self) -> NDArray[np.object_]:
        return np.array(self.rows["hold"].to_pylist(), object)

    @cached_property
    def released(self) -> NDArray[np.bool_]:
        """Whether what a holder needs is what is about to go."""
        found: NDArray[np.bool_] = self.rows[c.MARK].to_numpy() == c.MARK_RELEASED
        return found

    @cached_property
    def firsts(self) -> NDArray[np.int32]:
        """For each holder that needs all of its manifests, the first such one of its table and mark: the snapshots of a
        table name mostly the same manifests. Of what others need each counts for itself, how often it is added."""
        first: dict[tuple[int, int], int] = {}
        rows = zip(*(self.rows[name].to_pylist() for name in HOLDERS.names), strict=True)
        found = [
            first.setdefault((table, mark), holder) if hold == Hold.ALL else holder
            for holder, table, hold, mark in rows
        ]
        return np.array(found, np.int32)

    def __bool__(self) -> bool:
        return bool(self.to_read)


def everything(number: int, state: TableState) -> TableHolders:
    """A table as orphan cleanup asks for it: whatever any of its manifests still names, and what any state may need."""
    return number, state, (Holder(Hold.ALL, state.manifest_lists, state.manifests, state.files),)
