"""New files that were written for nothing: no commit names them, and that is certain. They go at once, through the one door.

What a commit may have named, or another process of the run wrote, is left to orphan cleanup and its grace.
"""

from __future__ import annotations

from lakewarden.ledger.statuses import WASTED
from lakewarden.model.compaction import Unused
from lakewarden.model.errors import LakewardenError
from lakewarden.model.files import BatchFiles
from lakewarden.model.ports import FileOutcome, JournalFile
from lakewarden.model.uri import canonical
from lakewarden.model.verdict import Kind, Outcome
from lakewarden.steps.apply.removal import Removal
from lakewarden.steps.apply.table_run import TableRun
from lakewarden.storage.answers import failed

AT_ONCE = 10


def let_go(run: TableRun, table: str, unused: Unused) -> None:
    """Delete these files of a table, announced in the journal before, and say what they were."""
    if not unused.uris:
        return
    validated_at = run.deployment.clock.boot()
    named = {canonical(uri) for uri in unused.named()}
    files = []
    for uri in sorted({canonical(uri) for uri in unused.uris} - named):
        if (found := run.deployment.stores.head(uri)) is not None:
            files.append(JournalFile(uri, found.size, found.modified, found.etag, table, str(Kind.DATA)))
    if not files:
        return
    journal, removal = run.deployment.ledger.journal, _removal(run)
    number = journal.next_batch(run.run_id)
    journal.intent(run.run_id, number, files)
    batch = BatchFiles.of(files)
    try:
        outcomes = removal.take(batch, run.roots_of(table), validated_at, run.check_may_go_on)
    except LakewardenError as error:
        # Refused at the door, before anything was touched. Then they are orphans, and go when they are old enough.
        outcomes = [failed(uri, error.code, error.message) for uri in batch.uris]
    journal.outcomes(run.run_id, number, outcomes)
    gone = sum(outcome.outcome in (Outcome.DELETED, Outcome.HIDDEN) for outcome in outcomes)
    detail = {"table": table, "files": len(files), "bytes": sum(file.size for file in files), "deleted": gone}
    run.deployment.ledger.runs.step(run.run_id, WASTED, detail)


def settle_leftovers(run: TableRun) -> None:
    """Close what a crashed process announced and did not close. What it did not get to delete stays, as an orphan."""
    removal = _removal(run)
    for batch in run.deployment.ledger.journal.open_batches(run.run_id):
        outcomes: list[FileOutcome] = [removal.after_crash(removal.look(uri)) for uri in batch.files.uris]
        run.deployment.ledger.journal.outcomes(run.run_id, batch.batch_no, outcomes)


def _removal(run: TableRun) -> Removal:
    return Removal(run.deployment, run.plan.plan_id, run.run_id, AT_ONCE, quarantined=False)
