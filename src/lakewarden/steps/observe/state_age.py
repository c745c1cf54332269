"""Whether the state database is as new as its state location: one that went back has forgotten what was released since."""

from __future__ import annotations

from lakewarden.ledger.heads import FOLDER
from lakewarden.ledger.marks import marks_in
from lakewarden.model.errors import StateBehindError
from lakewarden.steps.deployment import Deployment

SHOWN = 3


def forgotten_runs(deployment: Deployment) -> list[str]:
    """Runs that began or ended, by their marks in the state location, and of which the database does not know that."""
    files = deployment.stores.entries(f"{deployment.state}{FOLDER}/").files
    left = marks_in(file.key for file in files)
    known = deployment.ledger.runs.marks() if left else {}
    return sorted(run_id for run_id, number in left.items() if number > known.get(run_id, 0))


def check_not_restored(deployment: Deployment, left: str = "nothing was planned") -> None:
    """Raise if the database is older than its state location: what it forgot to be waiting would look like an orphan.

    `left` says what was not done because of it.
    """
    if runs := forgotten_runs(deployment):
        shown = ", ".join(runs[:SHOWN]) + (", …" if len(runs) > SHOWN else "")
        raise StateBehindError(
            f"the state database has forgotten {len(runs)} runs, or what they did last ({shown}), so it is older than "
            f"{deployment.state}{FOLDER}/ beside it; {left}"
        )
