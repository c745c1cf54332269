"""Which commit added a file: by the manifests that name it, or, once they are gone, by when the file was written. No Spark."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow.compute as pc

from lakewarden.model.errors import NotFoundError
from lakewarden.model.history import HeldBy
from lakewarden.pipeline.history.rows import read_file
from lakewarden.pipeline.read.avro.decode import decode_files
from lakewarden.reports.audit.asked import AskedSnapshot
from lakewarden.reports.audit.snapshots import Known, Snapshots
from lakewarden.reports.ways import Way, ways_to
from lakewarden.steps.deployment import Deployment, required
from lakewarden.steps.observe.fleet import load_fleet

BY_MANIFEST = "manifest"
BY_TIME = "time: the first commit of its table after the file was written, and likely the one that added it"


def written_by(
    deployment: Deployment, snapshots: Snapshots, uri: str, ways: Sequence[Way] | None = None
) -> tuple[list[Known], str]:
    """The commit that added a file, and how it was found. Raises NotFoundError if nobody can tell.

    `ways` are those in which tables need the file, where they are known already.
    """
    if ways is None:
        ways, _ = ways_to(deployment, load_fleet(deployment, deployment.clock.now()), uri)
    if ways and (found := _by_manifest(deployment, snapshots, uri, ways)):
        return found, BY_MANIFEST
    if found := _by_time(deployment, snapshots, uri, ways):
        return found, BY_TIME
    raise NotFoundError(
        f"nobody can tell which commit wrote {uri}",
        hint="Its table, the archive of snapshots and the journal do not name it. `lakewarden explain FILE` tells the rest.",
    )


def _by_manifest(deployment: Deployment, snapshots: Snapshots, uri: str, ways: Sequence[Way]) -> list[Known]:
    state = ways[0].state
    held = [
        HeldBy(way.list.snapshot_id, way.list.uri, way.manifest)
        for way in ways
        if way.list is not None and way.list.snapshot_id is not None and way.state is state
    ]
    if not held:
        return []
    historian = required(deployment.format_of(state.identifier).historian, state.identifier)
    number = historian.added_in(state, uri, held, deployment.stores, decode_files)
    found = snapshots.of(AskedSnapshot(number, state.uuid)) if number is not None else []
    # A Paimon id may have been committed again: the one that the table has now is the one that its manifests mean.
    return [known for known in found if known.live] or found


def _by_time(deployment: Deployment, snapshots: Snapshots, uri: str, ways: Sequence[Way]) -> list[Known]:
    """By the file's own time, as the store or the journal has it, among the snapshots of the table that it belonged to."""
    there = deployment.stores.head(uri)
    deletions = deployment.ledger.journal.find(uri)
    released = deployment.ledger.pending.find(uri)
    modified = there.modified if there is not None else deletions[-1].file.modified if deletions else None
    table = (
        ways[0].state.identifier
        if ways
        else released.table
        if released
        else deletions[-1].file.table
        if deletions
        else ""
    )
    if modified is None or not table:
        return []
    at_ms = int(modified.timestamp() * 1000)
    best: Known | None = None
    for live in snapshots.live:
        rows = live.filter(pc.and_(pc.equal(live["identifier"], table), pc.greater_equal(live["committed_ms"], at_ms)))
        for row in rows.sort_by("committed_ms").slice(0, 1).to_pylist():
            best = Known(row, live=True)
    files = [f for f in deployment.ledger.history.files() if f.lost is None and f.last_ms >= at_ms]
    for file in sorted(files, key=lambda file: file.first_ms):
        if best is not None and file.first_ms > best.row["committed_ms"]:
            break
        found = read_file(deployment.stores, file.uri, file.sha256)
        rows = found.filter(
            pc.and_(pc.equal(found["identifier"], table), pc.greater_equal(found["committed_ms"], at_ms))
        )
        for row in rows.sort_by("committed_ms").slice(0, 1).to_pylist():
            if best is None or row["committed_ms"] < best.row["committed_ms"]:
                best = Known(row, live=False, file=file.uri)
    return [] if best is None else [best]
