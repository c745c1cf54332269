"""Which commit added a file: by the manifests that name it, or, once they are gone, by when the file was written. No Spark."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakewarden.ledger.runs import Run
from lakewarden.model.errors import NotFoundError
from lakewarden.model.history import HeldBy
from lakewarden.model.policy import Job
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
    """By the file's own time, as the store or the journal has it, among the commits of the table that it belonged to.

    Only of a file that a table needs or has needed: an orphan was never added by any commit.
    """
    if (of := _once_needed(deployment, uri, ways)) is None:
        return []
    uuid, modified = of
    at_ms = int(modified.timestamp() * 1000)
    found = [Known(row, live=True) for live in snapshots.live for row in _first_after(live, uuid, at_ms)]
    files = [file for file in deployment.ledger.history.files() if file.lost is None and file.last_ms >= at_ms]
    for file in sorted(files, key=lambda file: file.first_ms):
        if found and file.first_ms > min(known.row["committed_ms"] for known in found):
            break
        rows = _first_after(read_file(deployment.stores, file.uri, file.sha256), uuid, at_ms)
        found += [Known(row, live=False, file=file.uri) for row in rows]
    return sorted(found, key=lambda known: (known.row["committed_ms"], not known.live))[:1]


def _once_needed(deployment: Deployment, uri: str, ways: Sequence[Way]) -> tuple[str, datetime] | None:
    """The uuid of the table that needs a file or has needed it, and when the file was written; None if no commit ever had it.

    The uuid, because a table of that name may be another one by now, and the table may have had another name.
    """
    deleted = [
        (run, found.file)
        for found in deployment.ledger.journal.find(uri)
        if (run := deployment.ledger.runs.get(found.run_id)) is not None and run.job == Job.PHYSICAL_DELETION
    ]
    released = deployment.ledger.pending.find(uri)
    uuid = next((way.state.uuid for way in ways if way.list is not None), None)
    if uuid is None and released is not None:
        uuid = _planned_uuid(deployment, deployment.ledger.runs.get(released.run_id), released.table)
    elif uuid is None and deleted:
        uuid = _planned_uuid(deployment, deleted[-1][0], deleted[-1][1].table)
    if not uuid:
        return None  # no store is asked for whatever address somebody may type
    there = deployment.stores.head(uri)
    modified = there.modified if there is not None else deleted[-1][1].modified if deleted else None
    return None if modified is None else (uuid, modified)


def _planned_uuid(deployment: Deployment, run: Run | None, table: str) -> str | None:
    """Which table went by a name when a run was planned."""
    header = deployment.ledger.plans.header(run.plan_id) if run is not None and run.plan_id else None
    return next((one.uuid for one in (header.tables if header else ()) if one.identifier == table), None)


def _first_after(rows: pa.Table, uuid: str, at_ms: int) -> list[dict[str, Any]]:
    """The first commit of a table since an instant that may have added a file."""
    late = pc.and_(pc.equal(rows["uuid"], uuid), pc.greater_equal(rows["committed_ms"], at_ms))
    added = rows.filter(pc.and_(late, pc.not_equal(rows["operation"], "delete")))
    first: list[dict[str, Any]] = added.sort_by("committed_ms").slice(0, 1).to_pylist()
    return first
