"""Whether the state database is as new as its state location: one that went back has forgotten what was released since."""

from __future__ import annotations

from collections.abc import Sequence

from lakewarden.ledger.heads import FOLDER
from lakewarden.ledger.marks import marks_in
from lakewarden.model.errors import StateBehindError
from lakewarden.steps.deployment import Deployment

SHOWN = 3


def marks_left(deployment: Deployment) -> list[str]:
    """The names of the marks and heads that runs have left in the state location."""
    return [file.key for file in deployment.stores.entries(f"{deployment.state}{FOLDER}/").files]


def forgotten_runs(deployment: Deployment, names: Sequence[str] | None = None) -> list[str]:
    """Runs that began or ended, by their marks in the state location, and of which the database does not know that.

    `names` are the marks, where they have been listed already.
    """
    left = marks_in(marks_left(deployment) if names is None else names)
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
