"""Which tables are made from which, by the inputs that their live snapshots name. No Spark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lakewarden.model.table import TableState
from lakewarden.pipeline.history.closure import graph_of
from lakewarden.pipeline.history.edges import EDGES, edges_of
from lakewarden.reports.audit.snapshots import Snapshots
from lakewarden.reports.page.graph import Drawing, Edge, Node, drawn
from lakewarden.steps.deployment import Deployment

MOST_ROWS = 100


@dataclass(frozen=True, slots=True)
class TableEdge:
    source: str
    target: str
    count: int


@dataclass(frozen=True, slots=True)
class Lineage:
    """The tables that are made from others, and how many commits say so."""

    tables: int
    commits: int
    edges: tuple[TableEdge, ...]
    graph: Drawing


def lineage_of(deployment: Deployment, states: Sequence[TableState]) -> Lineage | None:
    """Of these tables. None where no commit names a snapshot of another table as its input."""
    live = [table for table in Snapshots(deployment, states).live if table.num_rows]
    edges = pa.concat_tables([EDGES.empty_table(), *(edges_of(table, n) for n, table in enumerate(live))])
    graph = graph_of(edges)
    names = [table["identifier"][0].as_py() for table in live]
    exact = graph.file[graph.source], graph.file[graph.target], np.ones(len(graph.source), np.int64)
    source, target, many = map(np.concatenate, zip(exact, graph.shared.between(graph.file), strict=True))
    other = source != target
    pairs, place = np.unique(np.stack([source[other], target[other]]), axis=1, return_inverse=True)
    if not pairs.size:
        return None
    counts = np.zeros(pairs.shape[1], np.int64)
    np.add.at(counts, place.ravel(), many[other])
    found = [TableEdge(names[a], names[b], count) for a, b, count in zip(*pairs.tolist(), counts.tolist(), strict=True)]
    found.sort(key=lambda edge: (-edge.count, edge.source, edge.target))
    layers = _layers(found)
    nodes = [
        Node(name, "", depth, "start" if not depth else "made")
        for name, depth in sorted(layers.items(), key=lambda one: (one[1], one[0]))
    ]
    picture = drawn(
        nodes, [Edge(edge.source, edge.target, f"{edge.count:,}") for edge in found], "What is made from what"
    )
    return Lineage(len(layers), int(counts.sum()), tuple(found[:MOST_ROWS]), picture)


def _layers(edges: list[TableEdge]) -> dict[str, int]:
    """How far each table is from one that is made from none; a cycle ends where every table has its layer."""
    sources: dict[str, set[str]] = {}
    for edge in edges:
        sources.setdefault(edge.source, set())
        sources.setdefault(edge.target, set()).add(edge.source)
    layers = {name: 0 for name, of in sources.items() if not of}
    waiting = {name for name in sources if name not in layers}
    while waiting:
        ready = {name for name in waiting if sources[name] <= layers.keys()} or {min(waiting)}
        for name in ready:
            layers[name] = 1 + max((layers[of] for of in sources[name] if of in layers), default=-1)
        waiting -= ready
    return layers
