"""What became of the files so far: counted for the brakes of a run, read back from the journal for its record."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import islice

from lakewarden.ledger.journal import Journal
from lakewarden.model.plan import Tallies, Tally, add_tallies
from lakewarden.model.run import FailedFile
from lakewarden.model.verdict import Outcome

SHOWN_FAILURES = 100
REMOVED = (Outcome.DELETED, Outcome.HIDDEN, Outcome.QUARANTINED)


@dataclass
class Tallying:
    """The outcomes of this process alone: a run that was resumed has more of them in its journal."""

    outcomes: dict[str, Tally] = field(default_factory=dict)

    def add(self, found: Tallies) -> None:
        self.outcomes = add_tallies(self.outcomes, found)

    def of(self, outcome: Outcome) -> Tally:
        return self.outcomes.get(outcome, Tally())

    @property
    def touched(self) -> int:
        return sum(tally.files for name, tally in self.outcomes.items() if name != Outcome.KEPT)


def failures_of(journal: Journal, run_id: str) -> list[FailedFile]:
    """The first failures of a run, of every process that worked on it."""
    rows = islice(journal.outcome_rows(run_id, Outcome.FAILED), SHOWN_FAILURES)
    return [FailedFile(file.uri, outcome.code or "LW-STORE-001", outcome.message or "") for file, outcome in rows]
