"""Apply a plan of released files: as orphans go, but none before its cold copy, and the ledger of released files follows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lakewarden.jobs.physical_deletion.cold_recheck import ColdRecheck
from lakewarden.model.files import BatchFiles
from lakewarden.model.ports import FileOutcome
from lakewarden.model.verdict import Outcome
from lakewarden.steps.apply.claim import Claim
from lakewarden.steps.apply.file_run import FileRun
from lakewarden.steps.plan.ordered import OrderedRows

GONE = (Outcome.DELETED, Outcome.HIDDEN, Outcome.QUARANTINED, Outcome.ABSENT)


class Run(FileRun):
    """One run of one deletion plan."""

    def __init__(self, claim: Claim, rows: OrderedRows) -> None:
        super().__init__(claim, rows, Released(claim))


class Released:
    """What is known of files that expiry released: where their cold copies are, and that they still wait."""

    def __init__(self, claim: Claim) -> None:
        self._clock = claim.deployment.clock
        self._planned_at = claim.plan.created_at
        self._pending = claim.deployment.ledger.pending
        self._cold = ColdRecheck.of(claim.deployment.ledger, claim.deployment.stores, claim.plan)

    def withheld(self, files: BatchFiles) -> Mapping[str, FileOutcome]:
        """Files whose copy in the cold place was lost since the plan."""
        return self._cold.held(files)

    def settled(self, answers: Sequence[FileOutcome]) -> None:
        """Strike out what is gone, and let what was kept wait anew.

        Before the journal has the outcome: a batch without one is looked at again, while a name left behind in the ledger
        of released files would count as absent in the next plan.
        """
        self._pending.strike(answer.uri for answer in answers if answer.outcome in GONE)
        kept = [answer.uri for answer in answers if answer.outcome == Outcome.KEPT]
        # A clock that was set back must not shorten the wait.
        self._pending.renew(kept, max(self._clock.now(), self._planned_at))
