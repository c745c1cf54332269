"""What every change stands on: the root's lease, our name on its bucket, and nobody having frozen the deployment."""

from __future__ import annotations

from collections.abc import Sequence

from lakewarden.jobs.ownership import claim_place, owner_record
from lakewarden.jobs.purging import LEASE_SECONDS
from lakewarden.jobs.rooms import Rooms
from lakewarden.ledger.lease import Lease
from lakewarden.model.errors import FrozenError, NothingAppliedError


def root_lease(rooms: Rooms, prefix: str, *, wait: float = 0.0) -> Lease:
    """The root's lease, waited for at most so many seconds. Raises LeaseHeldError, or NothingAppliedError where another
    deployment is at home."""
    if (foreign := claim_place(rooms, owner_record(prefix))) is not None:
        raise NothingAppliedError(foreign.message, hint=foreign.hint)
    return rooms.leases.acquire(f"root/{prefix}", LEASE_SECONDS, wait=wait)


def check_frozen(rooms: Rooms, left: str) -> None:
    """Raise FrozenError if somebody froze this deployment; `left` says what was not done because of it."""
    if (frozen := rooms.ledger.switches.frozen()) is not None:
        raise FrozenError(f"{frozen.who} froze this deployment: {frozen.reason}; {left}")


def all_held(leases: Sequence[Lease]) -> None:
    """Raise LeaseLostError unless every lease is still ours."""
    for lease in leases:
        lease.check()
