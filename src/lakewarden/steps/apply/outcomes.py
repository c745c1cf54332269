"""What became of the files so far: counted for the brakes of a run, read back from the journal for its record."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import islice

from lakewarden.ledger.journal import Journal
from lakewarden.model.errors import TooManyAbsentError
from lakewarden.model.plan import Tallies, Tally, add_tallies
from lakewarden.model.run import FailedFile
from lakewarden.model.verdict import Outcome

SHOWN_FAILURES = 100
# Of the files that were gone, how many are looked up in the journal.
LOOKED_AT = 20
REMOVED = (Outcome.DELETED, Outcome.HIDDEN, Outcome.QUARANTINED)


@dataclass
class Counts:
    """How many files met which end: in the processes before this one, and in this one alone."""

    earlier: Tallies
    here: dict[str, Tally] = field(default_factory=dict)

    def add(self, found: Tallies) -> None:
        self.here = add_tallies(self.here, found)

    @property
    def absent(self) -> int:
        """Files that were gone when this process came to them."""
        return self.here.get(Outcome.ABSENT, Tally()).files

    @property
    def touched(self) -> int:
        """Files that this process did not simply keep."""
        return sum(tally.files for name, tally in self.here.items() if name != Outcome.KEPT)

    @property
    def processed(self) -> int:
        return sum(tally.files for tally in (*self.earlier.values(), *self.here.values()))

    def of(self, *outcomes: Outcome) -> int:
        """Files that met one of these ends, in all processes of the run."""
        done = add_tallies(self.earlier, self.here)
        return sum(done.get(outcome, Tally()).files for outcome in outcomes)


def failures_of(journal: Journal, run_id: str) -> list[FailedFile]:
    """The first failures of a run, of every process that worked on it."""
    rows = islice(journal.outcome_rows(run_id, Outcome.FAILED), SHOWN_FAILURES)
    return [FailedFile(file.uri, outcome.code or "LW-STORE-001", outcome.message or "") for file, outcome in rows]


def too_many_absent(journal: Journal, run_id: str, absent: int, touched: int) -> TooManyAbsentError:
    """That so many files were gone: by whose hand, if another run of this deployment took them."""
    message = f"{absent} of {touched} files were already gone; no further batch was started"
    for file, _ in islice(journal.outcome_rows(run_id, Outcome.ABSENT), LOOKED_AT):
        for found in journal.find(file.uri):
            if found.run_id != run_id and found.outcome in REMOVED:
                return TooManyAbsentError(
                    f"{message}. Run {found.run_id} of this deployment took them, such as {file.uri}",
                    hint=f"Look at it: lakewarden runs {found.run_id}. Nothing is lost that it was not to take; plan again.",
                )
    return TooManyAbsentError(message)
