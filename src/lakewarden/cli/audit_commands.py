"""`audit`: where data came from, what was made from it, whose hand it was, and whether the journal is whole."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from lakewarden.cli import worker
from lakewarden.cli.options import Shared, command_group
from lakewarden.cli.screen import Screen
from lakewarden.model.errors import Exit, UsageError

Subject = Annotated[
    str, typer.Argument(metavar="FILE|SNAPSHOT", help="A file's address, or a snapshot by its id or as TABLE@ID.")
]
Snapshot = Annotated[str, typer.Argument(metavar="SNAPSHOT", help="A snapshot by its id, or as TABLE@ID.")]
GRAPHS = (".svg", ".dot")

audit = command_group(
    "Where data came from, what was made from it, whose hand it was, and whether the journal is whole."
)


@audit.command()
def origin(shared: Shared, subject: Subject) -> int:
    """Which commit wrote a file, or what a snapshot says of itself."""
    answer = worker.open_worker(shared).audit_origin(subject)
    screen = Screen()
    if shared.as_json:
        screen.document(answer)
        return Exit.DONE
    for place, found in enumerate(answer["origins"]):
        if place:
            screen.line()
        screen.facts({name: value for name, value in found.items() if name not in ("summary", "table", "snapshot_id")})
    if how := answer.get("resolved_by"):
        screen.line(f"resolved by: {how}")
    _beside(screen, answer)
    return Exit.DONE


@audit.command()
def downstream(
    shared: Shared,
    snapshot: Snapshot,
    limit: Annotated[
        int, typer.Option("--limit", metavar="N", min=1, help="How many snapshots are shown; all are counted.")
    ] = 500,
    graph: Annotated[
        str | None, typer.Option("--graph", metavar="FILE", help="Draw it too: FILE.svg, or FILE.dot for Graphviz.")
    ] = None,
) -> int:
    """What was made from a snapshot, and from that, over all tables."""
    if graph is not None and not graph.endswith(GRAPHS):
        raise UsageError(f"--graph {graph}: a graph ends in {' or '.join(GRAPHS)}; nothing was looked up")
    answer = worker.open_worker(shared).audit_downstream(snapshot, limit)
    if graph is not None:
        _draw(answer, Path(graph))
        answer["graph"] = graph
    screen = Screen()
    if shared.as_json:
        screen.document(answer)
        return Exit.DONE
    total, tables = answer["total"], answer["tables"]
    commits = "1 snapshot was" if total == 1 else f"{total:,} snapshots were"
    within = "1 table" if len(tables) == 1 else f"{len(tables)} tables"
    screen.line(f"{commits} made from {answer['asked']}" + (f", in {within}." if total else "."))
    if total:
        screen.line()
        rows = [
            (one["depth"], one["snapshot"], one["operation"], one["writer"]["id"], one["committed_at"], one["state"])
            for one in answer["downstream"]
        ]
        columns = ("depth", "snapshot", "operation", "writer", "committed at", "state")
        screen.grid(columns, rows, frozenset({0}), drop=(5, 4))
    if total > len(answer["downstream"]):
        screen.line(f"{total - len(answer['downstream']):,} more are not shown; --limit shows more.")
    if graph is not None:
        screen.line(f"The graph is in {graph}.")
    _beside(screen, answer)
    return Exit.DONE


@audit.command()
def who(shared: Shared, subject: Subject) -> int:
    """Who deleted, rewrote or wrote a file; who made or expired a snapshot."""
    found = [dict(entry) for entry in worker.open_worker(shared).audit_who(subject)]
    screen = Screen()
    if shared.as_json:
        screen.document({"uri": subject, "entries": found})
    elif not found:
        screen.line("Neither Lakewarden's journal nor a commit that is known mentions this file.")
    for entry in found if not shared.as_json else ():
        screen.facts(entry)
        screen.line()
    return Exit.DONE


@audit.command()
def verify(
    shared: Shared,
    run_id: Annotated[str | None, typer.Argument(metavar="RUN", help="One run; default all.")] = None,
) -> int:
    """Check that nobody changed or cut the journal."""
    report = worker.open_worker(shared).audit_verify(run_id)
    screen = Screen()
    screen.document(report) if shared.as_json else screen.facts(report)
    return Exit.DONE if report["ok"] else Exit.FAILED


def _draw(answer: Mapping[str, Any], path: Path) -> None:
    from lakewarden.reports.page.graph import dot, downstream_graph, drawn, svg

    nodes, edges, title = downstream_graph(answer)
    text = svg(drawn(nodes, edges, title)) if path.suffix == ".svg" else dot(nodes, edges, title)
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"--graph {path}: {error.strerror or error}; no graph was written") from error


def _beside(screen: Screen, answer: Mapping[str, Any]) -> None:
    """What the answer does not cover."""
    for table, why in answer.get("unread_tables", {}).items():
        screen.line(f"not read: {table} ({why})", style="yellow")
    for uri, why in answer.get("lost_archive_files", {}).items():
        screen.line(f"not in this answer: what {uri} held ({why})", style="yellow")
