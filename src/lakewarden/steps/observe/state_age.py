"""Whether the state database is as new as its state location: one from a backup has forgotten what was released since."""

from __future__ import annotations

from lakewarden.ledger.heads import FOLDER
from lakewarden.model.errors import StateBehindError
from lakewarden.steps.deployment import Deployment

SHOWN = 3


def forgotten_runs(deployment: Deployment) -> list[str]:
    """Runs that ended, by the heads in the state location, and of which the database knows nothing."""
    kept = deployment.stores.entries(f"{deployment.state}{FOLDER}/").files
    ended = {file.key.removesuffix(".json") for file in kept if file.key.endswith(".json")}
    return sorted(ended - deployment.ledger.runs.known()) if ended else []


def check_not_restored(deployment: Deployment) -> None:
    """Raise if the database is older than its state location: what it forgot to be waiting would look like an orphan."""
    if runs := forgotten_runs(deployment):
        shown = ", ".join(runs[:SHOWN]) + (", …" if len(runs) > SHOWN else "")
        raise StateBehindError(
            f"the state database knows nothing of {len(runs)} runs that ended ({shown}), so it is older than "
            f"{deployment.state}{FOLDER}/ beside it; nothing was planned"
        )
