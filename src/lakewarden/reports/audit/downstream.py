"""What was made from a snapshot, and from that, and so on: over every table, live and archived.

A small archive is walked here, in a second; a large one by Spark, in one job.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from lakewarden.ledger.history import HistoryFile
from lakewarden.model.errors import ArchiveDamagedError, NotFoundError
from lakewarden.pipeline.history.closure import EDGE, NODE, NOTE, TABLE, Start
from lakewarden.pipeline.history.closure import downstream as walk
from lakewarden.pipeline.history.edges import EDGES, NUMBERED, edges_of, hash_of, reading_edges
from lakewarden.pipeline.history.rows import read_file
from lakewarden.reports.audit.asked import AskedSnapshot, snapshot_asked
from lakewarden.reports.audit.facts import name_of, snapshot_facts
from lakewarden.reports.audit.origin import beside
from lakewarden.reports.audit.snapshots import Known, Snapshots
from lakewarden.steps.deployment import Deployment
from lakewarden.steps.in_spark import in_spark

# Up to so many archived snapshots the answer is there before Spark has started.
FEW_ROWS = 100_000
SHOWN = 500

Facts = dict[str, Any]


def downstream(deployment: Deployment, text: str, limit: int = SHOWN) -> Facts:
    """Every snapshot that was made from this one, directly or not, nearest first; at most `limit` are shown, all are counted.

    Raises NotFoundError if neither a table nor the archive has the snapshot and no snapshot names it as an input.
    """
    wanted = snapshot_asked(text)
    snapshots = Snapshots(deployment)
    files = [file for file in deployment.ledger.history.files() if file.lost is None]
    answer = _answer(deployment, snapshots, files, wanted, limit)
    rows = answer.to_pylist()
    if (note := next((row["text"] for row in rows if row["kind"] == NOTE), None)) is not None:
        raise ArchiveDamagedError(f"{note}; the question was not answered")
    nodes = [row for row in rows if row["kind"] == NODE]
    tables = [row for row in rows if row["kind"] == TABLE]
    if not nodes:
        raise NotFoundError(
            f"snapshot {wanted} is in no table and not in the archive, and no snapshot names it as an input"
        )
    rowed = _rows(deployment, snapshots, files, [(r["a"], r["b"]) for r in nodes] + [(r["b"], r["c"]) for r in tables])
    known = [rowed[row["a"], row["b"]] for row in nodes]
    starts = sum(row["c"] == 0 for row in nodes)
    counts: dict[str, int] = {}
    for row in tables:
        name = rowed[row["b"], row["c"]].row["identifier"]
        counts[name] = counts.get(name, 0) + row["a"]
    return {
        "asked": str(wanted),
        "from": [snapshot_facts(one) for one in known[:starts]],
        "total": sum(counts.values()),
        "tables": dict(sorted(counts.items())),
        "downstream": [
            {"depth": row["c"], **snapshot_facts(one)} for row, one in zip(nodes[starts:], known[starts:], strict=True)
        ],
        "edges": [
            {
                "from": name_of(known[row["a"]].row),
                "to": name_of(known[row["b"]].row),
                **({"guessed": True} if row["c"] else {}),
            }
            for row in rows
            if row["kind"] == EDGE
        ],
        **beside(snapshots),
    }


def _answer(
    deployment: Deployment, snapshots: Snapshots, files: Sequence[HistoryFile], wanted: AskedSnapshot, limit: int
) -> pa.Table:
    start = Start(wanted.snapshot_id, hash_of(wanted.table) if wanted.table else None)
    # What a table has now counts as such, whatever the archive has of it: so it comes first.
    live = pa.concat_tables(
        [EDGES.empty_table(), *(edges_of(table, -1 - place) for place, table in enumerate(snapshots.live))]
    )
    numbered = pa.table(
        [range(len(files)), [file.uri for file in files], [file.sha256 for file in files]], schema=NUMBERED
    )
    if sum(file.rows for file in files) <= FEW_ROWS:
        read = pa.Table.from_batches(reading_edges(deployment.stores)(numbered.to_batches()), schema=EDGES)
        return walk(pa.concat_tables([live, read]), start, limit)

    def by_spark() -> pa.Table:
        from lakewarden.pipeline.history.job import downstream_by_spark

        spark = deployment.warm_spark().result()
        return downstream_by_spark(spark, numbered, live, start, limit, deployment.stores)

    return in_spark(by_spark)


def _rows(
    deployment: Deployment, snapshots: Snapshots, files: Sequence[HistoryFile], wanted: Sequence[tuple[int, int]]
) -> dict[tuple[int, int], Known]:
    """The rows at these places: of a table that is live (numbers below zero), or of a file of the archive."""
    by_file: dict[int, list[int]] = {}
    for number, place in wanted:
        by_file.setdefault(number, []).append(place)
    found: dict[tuple[int, int], Known] = {}
    alive = {key for table in snapshots.live for key in _keys(table)}
    for number, places in by_file.items():
        if number < 0:
            table, uri = snapshots.live[-1 - number], None
        else:
            file = files[number]
            table, uri = read_file(deployment.stores, file.uri, file.sha256), file.uri
        for place, row in zip(places, table.take(pa.array(places)).to_pylist(), strict=True):
            known = Known(row, live=uri is None, file=uri)
            found[number, place] = Known(row, live=known.key in alive, file=uri)
    return found


def _keys(table: pa.Table) -> list[tuple[str, int, str]]:
    return list(zip(*(table[name].to_pylist() for name in ("uuid", "snapshot_id", "digest")), strict=True))
