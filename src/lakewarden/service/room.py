"""How many requests may wait for a runner, whoever makes them."""

from __future__ import annotations

from lakewarden.ledger.requests import Requests
from lakewarden.model.errors import TooBusyError
from lakewarden.model.service import RequestStatus

# Beyond this nobody is helped by one more: runners are down, or a script goes in circles.
MOST_WAITING = 500


def check_room(requests: Requests) -> None:
    """Raise TooBusyError if as many requests wait as may."""
    if len(requests.list(status=[RequestStatus.QUEUED], limit=MOST_WAITING)) == MOST_WAITING:
        raise TooBusyError(f"{MOST_WAITING} requests wait for a runner; nothing was asked for")
