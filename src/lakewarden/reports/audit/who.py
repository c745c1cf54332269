"""Whose hand it was: who deleted or rewrote a file, who made or expired a snapshot. No Spark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from lakewarden.ledger.archives import Archive
from lakewarden.ledger.journal import Deletion
from lakewarden.model import lineage as keys
from lakewarden.model.errors import LakewardenError, NotFoundError
from lakewarden.model.run import EXPIRED, RESTORED
from lakewarden.model.verdict import Outcome
from lakewarden.reports.audit.asked import AskedSnapshot, asked
from lakewarden.reports.audit.facts import instant, name_of
from lakewarden.reports.audit.origin import one_of_few
from lakewarden.reports.audit.snapshots import Known, Snapshots
from lakewarden.reports.audit.written import written_by
from lakewarden.reports.compacted import compacted
from lakewarden.steps.deployment import Deployment

UNCERTAIN = "to be expired; it is not on record whether this run took it or somebody else"

Facts = dict[str, Any]


def who(deployment: Deployment, text: str) -> list[Facts]:
    """Every deletion of a file that the journal knows, what compaction did with it, and which commit wrote it; of a snapshot,
    who made it and which run expired it.

    Raises UsageError for what is neither a file's address nor a snapshot, NotFoundError for a snapshot that nobody knows.
    """
    wanted = asked(text)
    snapshots = Snapshots(deployment)
    if isinstance(wanted, AskedSnapshot):
        found = one_of_few(snapshots, wanted)
        return [entry for known in found for entry in _of_snapshot(deployment, known, found)]
    deletions = [entry for found in deployment.ledger.journal.find(wanted) for entry in _of_deletion(deployment, found)]
    rewritten = ({"outcome": found.pop("did"), **found} for found in compacted(deployment, wanted) if "run_id" in found)
    return [*deletions, *rewritten, *_committed(deployment, snapshots, wanted)]


def _of_deletion(deployment: Deployment, found: Deletion) -> Iterator[Facts]:
    """What a run did with a file, and who brought it back, if it lay in quarantine."""
    yield {
        "run_id": found.run_id,
        "batch": found.batch_no,
        "outcome": found.outcome,
        "at": found.at.isoformat() if found.at else None,
        "plan_id": found.plan_id,
        "actor": asdict(found.actor),
    }
    if found.outcome != Outcome.QUARANTINED:
        return
    for step in deployment.ledger.runs.steps(found.run_id):
        run = deployment.ledger.runs.get(step.detail["by"]) if step.name == RESTORED else None
        failed = {one["uri"] for one in (run.result or {}).get("failed", ())} if run else set()
        if run is not None and found.file.uri not in failed:
            at = (run.finished_at or step.at).isoformat()
            yield {"run_id": run.run_id, "outcome": RESTORED, "at": at, "actor": asdict(run.actor)}
            return  # whoever restored the run once more found the file where it was


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


def _of_snapshot(deployment: Deployment, known: Known, beside: Sequence[Known]) -> Iterator[Facts]:
    """Who made a snapshot, and who expired it. `beside` are the others of its id: a Paimon table may commit an id again."""
    yield _made(known)
    if known.live:
        return
    uuid, number, made_ms = known.row["uuid"], known.row["snapshot_id"], known.row["committed_ms"]
    later = [
        one.row["committed_ms"]
        for one in beside
        if one.row["uuid"] == uuid and not one.live and one.row["committed_ms"] > made_ms
    ]
    for archive in deployment.ledger.archives.of(uuid):
        if number not in archive.snapshots:
            continue
        # Of two that are gone, the run may have met the newer one: after a rollback, or because a branch had the id too.
        alone = not any(one <= archive.archived_at.timestamp() * 1000 for one in later)
        run = deployment.ledger.runs.get(archive.run_id)
        yield {
            "outcome": EXPIRED if alone and _took(deployment, archive) else UNCERTAIN,
            "run_id": archive.run_id,
            "at": archive.archived_at.isoformat(),
            "plan_id": run.plan_id if run else None,
            "actor": asdict(run.actor) if run else None,
        }


def _took(deployment: Deployment, archive: Archive) -> bool:
    """Whether the commit is on record that a run announced when it kept the table's metadata."""
    steps = (step.detail for step in deployment.ledger.runs.steps(archive.run_id) if step.name == EXPIRED)
    return any(step["table"] == archive.table_name and "failure" not in step for step in steps)


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
