"""Whether the state database is as new as its state location: one from a backup has forgotten what was released since."""

from __future__ import annotations

from lakewarden.jobs.rooms import Rooms
from lakewarden.ledger.heads import FOLDER
from lakewarden.model.errors import StateBehindError

SHOWN = 3


def forgotten_runs(rooms: Rooms) -> list[str]:
    """Runs that ended, by the heads in the state location, and of which the database knows nothing."""
    kept = rooms.stores.entries(f"{rooms.state}{FOLDER}/").files
    ended = {file.key.removesuffix(".json") for file in kept if file.key.endswith(".json")}
    return sorted(ended - rooms.ledger.runs.known()) if ended else []


def check_not_restored(rooms: Rooms) -> None:
    """Raise if the database is older than its state location: what it forgot to be waiting would look like an orphan."""
    if runs := forgotten_runs(rooms):
        shown = ", ".join(runs[:SHOWN]) + (", …" if len(runs) > SHOWN else "")
        raise StateBehindError(
            f"the state database knows nothing of {len(runs)} runs that ended ({shown}), so it is older than "
            f"{rooms.state}{FOLDER}/ beside it; nothing was planned"
        )
