"""What was made from a snapshot, and from that, and so on: over any number of snapshots, of any depth, in one task.

Chains of a hundred thousand commits are as deep as they are long, so no level costs a Spark job. Cycles, which no honest
writer makes, end where they began: each snapshot is reached once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lakewarden.pipeline.history.edges import EDGES
from lakewarden.pipeline.settled import Batches

# Of fewer snapshots a level is walked one by one: numpy's calls would cost more than they save.
FEW = 32
MIX = np.int64(0x9E3779B97F4A7C15 - 2**64)  # odd: tables that differ stay different
NODE, EDGE, TABLE, NOTE = 0, 1, 2, 3
# What the task answers. NODE: its file, its place, how deep it is, whether it is a start. EDGE: two places in the list of nodes, and
# whether the input's table was guessed. TABLE: how many snapshots of it were reached, and the file and place of one.
ANSWER = pa.schema([("kind", pa.int32()), *((name, pa.int64()) for name in "abcd"), ("text", pa.string())])

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Start:
    """The snapshot that is asked about: its id, and the hash of its table if one was named."""

    snapshot_id: int
    table: int | None = None


@dataclass(frozen=True, slots=True)
class Names:
    """What tables are and were called: a table that is renamed is still what its old name means, and what its uuid means."""

    name: Ints
    table: Ints

    @staticmethod
    def of(names: Ints, tables: Ints) -> Names:
        _, first = np.unique(names ^ (tables * MIX), return_index=True)
        own = np.unique(tables)
        return Names(np.concatenate([names[first], own]), np.concatenate([tables[first], own]))

    def fit(self, names: Ints, tables: Ints) -> NDArray[np.bool_]:
        """Whether each name is or was one of the table beside it."""
        found: NDArray[np.bool_] = np.isin(names ^ (tables * MIX), self.name ^ (self.table * MIX))
        return found

    def tables(self, name: int) -> Ints:
        """The tables that are or were called so."""
        found: Ints = self.table[self.name == name]
        return found

    def same(self, name: int) -> Ints:
        """Every name of the tables that are or were called so; at least this one."""
        return np.append(self.name[np.isin(self.table, self.tables(name))], name)


@dataclass(frozen=True, slots=True)
class Graph:
    """Snapshots by number, and for each those that were made from it."""

    file: Ints
    place: Ints
    table: Ints
    id: Ints
    at: Ints
    named: Names
    source: Ints  # of each resolved edge
    target: Ints
    guessed: NDArray[np.bool_]
    unknown_table: Ints  # of each edge whose input no snapshot is: what it names, 0 for no table
    unknown_id: Ints
    unknown_target: Ints


def graph_of(edges: pa.Table) -> Graph:
    """EDGES in. An input without a table is one of its own table, if that has the id; else of every table that has it."""
    column = {name: _ints(edges[name]) for name in EDGES.names if name != "note"}
    # One number for each snapshot, in however many files and rows it is. Its digest differs from every other's; two tables
    # that are copies of each other have snapshots of one digest.
    keys = column["digest"] ^ (column["table"] * MIX)
    _, first, number = np.unique(keys, return_index=True, return_inverse=True)
    node = {name: column[name][first] for name in ("file", "place", "table", "id", "at")}
    names = Names.of(column["name"], column["table"])
    has = np.flatnonzero(edges["input_id"].is_valid().to_numpy(zero_copy_only=False))
    target, wanted, named = number[has], column["input_id"][has], column["input_table"][has]
    has_name = edges["input_table"].is_valid().to_numpy(zero_copy_only=False)[has]
    by_id = np.argsort(node["id"], kind="stable")
    sorted_ids = node["id"][by_id]
    low, high = np.searchsorted(sorted_ids, wanted, "left"), np.searchsorted(sorted_ids, wanted, "right")
    many = high - low
    edge = np.repeat(np.arange(len(wanted)), many)
    found = by_id[np.repeat(low, many) + (np.arange(len(edge)) - np.repeat(np.cumsum(many) - many, many))]
    own = node["table"][found] == node["table"][target[edge]]
    right = names.fit(named[edge], node["table"][found])
    has_own = np.bincount(edge[own], minlength=len(wanted)) > 0
    kept = np.where(has_name[edge], right, own | ~has_own[edge]) & (found != target[edge])
    edge, found = edge[kept], found[kept]
    several = np.bincount(edge, minlength=len(wanted)) > 1
    lost = np.flatnonzero(np.bincount(edge, minlength=len(wanted)) == 0)
    return Graph(
        **node,
        named=names,
        source=found,
        target=target[edge],
        guessed=several[edge],
        unknown_table=np.where(has_name[lost], named[lost], 0),
        unknown_id=wanted[lost],
        unknown_target=target[lost],
    )


def depths(graph: Graph, start: Start) -> tuple[NDArray[np.int32], Ints]:
    """For each snapshot how many steps it is away from the start, -1 if it is not reached; and the starts themselves.

    A start that nobody archived and no table has may still be what others were made from.
    """
    count = len(graph.id)
    is_start = graph.id == start.snapshot_id
    if start.table is not None:
        is_start &= np.isin(graph.table, graph.named.tables(start.table))
    starts = np.flatnonzero(is_start)
    depth = np.full(count, -1, np.int32)
    depth[starts] = 0
    naming = graph.unknown_id == start.snapshot_id
    if start.table is not None:
        naming &= np.isin(graph.unknown_table, np.append(graph.named.same(start.table), 0))
    beyond = np.unique(graph.unknown_target[naming])
    order = np.argsort(graph.source, kind="stable")
    targets = graph.target[order]
    offsets = np.searchsorted(graph.source[order], np.arange(count + 1))
    frontier = _unseen(depth, np.concatenate([_next(starts, offsets, targets), beyond]), 1)
    level = 1
    while len(frontier):
        level += 1
        if len(frontier) <= FEW:
            near = [t for one in frontier.tolist() for t in targets[offsets[one] : offsets[one + 1]].tolist()]
            fresh = [one for one in dict.fromkeys(near) if depth[one] < 0]
            depth[fresh] = level
            frontier = np.array(fresh, np.int64)
        else:
            frontier = _unseen(depth, _next(frontier, offsets, targets), level)
    return depth, starts


def downstream(edges: pa.Table, start: Start, limit: int) -> pa.Table:
    """ANSWER: the start and at most `limit` snapshots that were made from it, nearest first; every table is counted."""
    if (notes := pc.drop_null(edges["note"])) and len(notes):
        return pa.Table.from_pylist([{"kind": NOTE, "text": notes[0].as_py()}], schema=ANSWER)
    graph = graph_of(edges)
    depth, starts = depths(graph, start)
    reached = np.flatnonzero(depth > 0)
    order = reached[np.lexsort((graph.id[reached], graph.at[reached], depth[reached]))]
    shown = np.concatenate([starts, order[:limit]])
    parts = [
        _answer(
            NODE, graph.file[shown], graph.place[shown], depth[shown].astype(np.int64), np.zeros(len(shown), np.int64)
        )
    ]
    at = np.full(len(graph.id), -1, np.int64)
    at[shown] = np.arange(len(shown))
    between = np.flatnonzero((at[graph.source] >= 0) & (at[graph.target] >= 0))
    # A snapshot that is live and archived says its inputs twice, and may name one of them by its id and by its table too.
    certain_first = between[np.argsort(graph.guessed[between], kind="stable")]
    source, target = at[graph.source[certain_first]], at[graph.target[certain_first]]
    _, once = np.unique(source * len(shown) + target, return_index=True)
    guessed = graph.guessed[certain_first][once].astype(np.int64)
    parts.append(_answer(EDGE, source[once], target[once], guessed, np.zeros(len(once), np.int64)))
    _, first, counts = np.unique(graph.table[reached], return_index=True, return_counts=True)
    one = reached[first]
    parts.append(_answer(TABLE, counts, graph.file[one], graph.place[one], np.zeros(len(one), np.int64)))
    return pa.concat_tables(parts)


def in_one_task(start: Start, limit: int) -> Callable[[Batches], Batches]:
    """All EDGES in, ANSWER out."""

    def run(batches: Batches) -> Batches:
        edges = pa.Table.from_batches(list(batches), schema=EDGES)
        yield from downstream(edges, start, limit).to_batches()

    return run


def _next(nodes: Ints, offsets: Ints, targets: Ints) -> Ints:
    """What was made from any of these, with repetitions."""
    low, many = offsets[nodes], offsets[nodes + 1] - offsets[nodes]
    steps = np.arange(many.sum()) - np.repeat(np.cumsum(many) - many, many)
    found: Ints = targets[np.repeat(low, many) + steps]
    return found


def _unseen(depth: NDArray[np.int32], nodes: Ints, level: int) -> Ints:
    """Those that are reached for the first time, each once; they are so deep."""
    fresh: Ints = np.unique(nodes[depth[nodes] < 0])
    depth[fresh] = level
    return fresh


def _ints(column: pa.ChunkedArray) -> Ints:
    found: Ints = pc.fill_null(column, 0).to_numpy().astype(np.int64)
    return found


def _answer(kind: int, *columns: Ints) -> pa.Table:
    many = len(columns[0])
    arrays = [pa.array(np.full(many, kind, np.int32)), *(pa.array(np.asarray(column, np.int64)) for column in columns)]
    return pa.table([*arrays, pa.nulls(many, pa.string())], schema=ANSWER)
