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

    def each(self, names: Ints) -> tuple[Ints, Ints]:
        """Of each name the tables that are or were called so: the name's place in the list, and the table."""
        order = np.argsort(self.name, kind="stable")
        place, at = _between(self.name[order], names)
        return place, self.table[order][at]

    def tables(self, name: int) -> Ints:
        """The tables that are or were called so."""
        found: Ints = self.table[self.name == name]
        return found

    def same(self, name: int) -> Ints:
        """Every name of the tables that are or were called so; at least this one."""
        return np.append(self.name[np.isin(self.table, self.tables(name))], name)


@dataclass(frozen=True, slots=True)
class Shared:
    """Inputs that name no table and whose id the own table does not have: each is every snapshot that has the id.

    Ids of Paimon tables are small numbers, and every table has them. With an edge for each pair there would be as many as
    all tables times all commits; so an id is one place, to which its snapshots lead and from which the commits come.
    """

    of: Ints  # the place of each snapshot; -1 where nobody names its id so
    offsets: Ints  # where in `targets` each place begins, and the end
    targets: Ints

    @staticmethod
    def of_inputs(ids: Ints, wanted: Ints, targets: Ints) -> Shared:
        named, place = np.unique(wanted, return_inverse=True)
        order = np.argsort(place, kind="stable")
        offsets = np.searchsorted(place[order], np.arange(len(named) + 1))
        of = np.full(len(ids), -1, np.int64)
        has, at = _between(named, ids)
        of[has] = at
        return Shared(of, offsets, targets[order])

    def pairs(self, shown: Ints) -> tuple[Ints, Ints, NDArray[np.bool_]]:
        """The edges between some snapshots: from, to, and whether other snapshots have the id as well."""
        place = np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets))
        is_shown = np.isin(self.targets, shown)
        target, place = self.targets[is_shown], place[is_shown]
        order = np.argsort(self.of[shown], kind="stable")
        edge, at = _between(self.of[shown][order], place)
        several = np.bincount(self.of[self.of >= 0], minlength=len(self.offsets)) > 1
        return shown[order][at], target[edge], several[place[edge]]

    def between(self, groups: Ints) -> tuple[Ints, Ints, Ints]:
        """How many edges lead from one group of snapshots to another: from, to, how many. `groups` has each snapshot's."""
        has = np.flatnonzero(self.of >= 0)
        place = np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets))
        source, many = np.unique(np.stack([self.of[has], groups[has]]), axis=1, return_counts=True)
        target, made = np.unique(np.stack([place, groups[self.targets]]), axis=1, return_counts=True)
        edge, at = _between(source[0], target[0])
        return source[1][at], target[1][edge], many[at] * made[edge]


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
    shared: Shared
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
    has_name = named != 0
    # Of which tables an input can be: of those that are or were called so; without a name, of its own.
    bare, given = np.flatnonzero(~has_name), np.flatnonzero(has_name)
    place, called = names.each(named[given])
    edge = np.concatenate([bare, given[place]])
    table = np.concatenate([node["table"][target[bare]], called])
    edge, found = _having(node["id"], node["table"], wanted[edge], table, edge)
    is_found = np.bincount(edge, minlength=len(wanted)) > 0
    is_shared = ~has_name & ~is_found
    if is_shared.any():
        is_shared[is_shared] = np.isin(wanted[is_shared], node["id"])
    other = found != target[edge]
    edge, found = edge[other], found[other]
    many = np.bincount(edge, minlength=len(wanted))
    lost = np.flatnonzero((many == 0) & ~is_shared)
    return Graph(
        **node,
        named=names,
        source=found,
        target=target[edge],
        guessed=(many > 1)[edge],
        shared=Shared.of_inputs(node["id"], wanted[is_shared], target[is_shared]),
        unknown_table=named[lost],
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
    made = _Made(graph.target[order], np.searchsorted(graph.source[order], np.arange(count + 1)), graph.shared)
    frontier = _unseen(depth, np.concatenate([made.of(starts), beyond]), 1)
    level = 1
    while len(frontier):
        level += 1
        if len(frontier) <= FEW:
            fresh = [one for one in dict.fromkeys(made.of_few(frontier.tolist())) if depth[one] < 0]
            depth[fresh] = level
            frontier = np.array(fresh, np.int64)
        else:
            frontier = _unseen(depth, made.of(frontier), level)
    return depth, starts


class _Made:
    """What was made from snapshots, with repetitions. What an id that many share leads to is told once."""

    def __init__(self, targets: Ints, offsets: Ints, shared: Shared) -> None:
        self._targets = targets
        self._offsets = offsets
        self._shared = shared
        self._told = np.zeros(len(shared.offsets) - 1, np.bool_)
        self._any = bool(len(shared.targets))

    def of(self, nodes: Ints) -> Ints:
        shared, places = self._shared, np.unique(self._shared.of[nodes])
        places = places[places >= 0]
        places = places[~self._told[places]]
        self._told[places] = True
        own = self._targets[_spread(self._offsets[nodes], self._offsets[nodes + 1])]
        found: Ints = np.concatenate([own, shared.targets[_spread(shared.offsets[places], shared.offsets[places + 1])]])
        return found

    def of_few(self, nodes: list[int]) -> list[int]:
        targets, offsets = self._targets, self._offsets
        found = [one for node in nodes for one in targets[offsets[node] : offsets[node + 1]].tolist()]
        return found + self._by_shared(nodes) if self._any else found

    def _by_shared(self, nodes: list[int]) -> list[int]:
        shared, found = self._shared, list[int]()
        for place in shared.of[nodes].tolist():
            if place >= 0 and not self._told[place]:
                self._told[place] = True
                found += shared.targets[shared.offsets[place] : shared.offsets[place + 1]].tolist()
        return found


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
    exact = (graph.source[between], graph.target[between], graph.guessed[between])
    source, target, guessed = map(np.concatenate, zip(exact, graph.shared.pairs(shown), strict=True))
    # A snapshot may name one of its inputs by its id and by its table too.
    order = np.argsort(guessed, kind="stable")
    source, target, guessed = at[source[order]], at[target[order]], guessed[order]
    _, once = np.unique(source * len(shown) + target, return_index=True)
    parts.append(
        _answer(EDGE, source[once], target[once], guessed[once].astype(np.int64), np.zeros(len(once), np.int64))
    )
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


def _between(places: Ints, wanted: Ints) -> tuple[Ints, Ints]:
    """Every pair of equal numbers of a list and of one that is in order: the place in the list, and in the other."""
    if not len(places):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    begins = np.flatnonzero(np.append(True, places[1:] != places[:-1]))
    ends = np.append(begins[1:], len(places))
    values = places[begins]
    at = np.minimum(np.searchsorted(values, wanted), len(values) - 1)
    found = np.flatnonzero(values[at] == wanted)
    low, high = begins[at[found]], ends[at[found]]
    return np.repeat(found, high - low), _spread(low, high)


def _spread(low: Ints, high: Ints) -> Ints:
    """The numbers of several ranges, one range after the other."""
    many = high - low
    found: Ints = np.repeat(low, many) + (np.arange(many.sum()) - np.repeat(np.cumsum(many) - many, many))
    return found


def _having(ids: Ints, tables: Ints, wanted: Ints, of: Ints, edge: Ints) -> tuple[Ints, Ints]:
    """The snapshots that have an id and are of a table, each beside the edge that wants them."""
    keys = ids * MIX ^ tables
    order = np.argsort(keys, kind="stable")
    place, at = _between(keys[order], wanted * MIX ^ of)
    found = order[at]
    # Two pairs may have one key.
    right = (ids[found] == wanted[place]) & (tables[found] == of[place])
    return edge[place[right]], found[right]


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
