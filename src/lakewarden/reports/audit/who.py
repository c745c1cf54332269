"""Whose hand it was: who deleted or rewrote a file, who made or expired a snapshot. No Spark."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from lakewarden.model import lineage as keys
from lakewarden.model.errors import LakewardenError, NotFoundError
from lakewarden.reports.audit.asked import AskedSnapshot, asked
from lakewarden.reports.audit.facts import instant, name_of
from lakewarden.reports.audit.origin import one_of_few
from lakewarden.reports.audit.snapshots import Known, Snapshots
from lakewarden.reports.audit.written import written_by
from lakewarden.reports.compacted import compacted
from lakewarden.steps.deployment import Deployment

Facts = dict[str, Any]


def who(deployment: Deployment, text: str) -> list[Facts]:
    """Every deletion of a file that the journal knows, what compaction did with it, and which commit wrote it; of a snapshot,
    who made it and which run expired it.

    Raises UsageError for what is neither a file's address nor a snapshot, NotFoundError for a snapshot that nobody knows.
    """
    wanted = asked(text)
    snapshots = Snapshots(deployment)
    if isinstance(wanted, AskedSnapshot):
        return [entry for known in one_of_few(snapshots, wanted) for entry in _of_snapshot(deployment, known)]
    deletions = [
        {
            "run_id": found.run_id,
            "batch": found.batch_no,
            "outcome": found.outcome,
            "at": found.at.isoformat() if found.at else None,
            "plan_id": found.plan_id,
            "actor": asdict(found.actor),
        }
        for found in deployment.ledger.journal.find(wanted)
    ]
    rewritten = ({"outcome": found.pop("did"), **found} for found in compacted(deployment, wanted) if "run_id" in found)
    return [*deletions, *rewritten, *_committed(deployment, snapshots, wanted)]


def _committed(deployment: Deployment, snapshots: Snapshots, uri: str) -> Iterator[Facts]:
    """The commit that added a file, as far as anybody can tell: a deletion is told also where no writer is known."""
    try:
        found, how = written_by(deployment, snapshots, uri)
    except NotFoundError:
        return
    except LakewardenError as error:
        yield {"outcome": "unknown writer", "why": error.message}
        return
    yield from (
        {**_made(known), "outcome": f"added by {known.row['operation'] or 'a commit'}", "resolved_by": how}
        for known in found
    )


def _of_snapshot(deployment: Deployment, known: Known) -> Iterator[Facts]:
    yield _made(known)
    for archive in deployment.ledger.archives.of(known.row["uuid"]):
        if not known.live and known.row["snapshot_id"] in archive.snapshots:
            run = deployment.ledger.runs.get(archive.run_id)
            yield {
                "outcome": "expired",
                "run_id": archive.run_id,
                "at": archive.archived_at.isoformat(),
                "plan_id": run.plan_id if run else None,
                "actor": asdict(run.actor) if run else None,
            }


def _made(known: Known) -> Facts:
    """Who is behind a commit, by its own summary."""
    said = known.summary
    return {
        "outcome": known.row["operation"] or "committed",
        "snapshot": name_of(known.row),
        "at": instant(known.row["committed_ms"]),
        "operator": said.get(keys.OPERATOR),
        "ticket": said.get(keys.TICKET),
        "trigger": said.get(keys.TRIGGER),
        "writer": said.get(keys.WRITER),
    }
