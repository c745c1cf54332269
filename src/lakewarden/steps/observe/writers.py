"""Who is at work on each table: expiry leaves them the snapshots that they started on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from lakewarden.ledger.group_leases import AtWork, GroupLeases
from lakewarden.steps.deployment import Deployment

_EVER = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class InUse:
    """What work in progress needs of one table: since when it goes on, and snapshots that it reads."""

    since: datetime | None = None
    snapshots: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Writers:
    """By table, when the oldest live work began, as its heartbeat says; by its uuid, what is being rewritten under leases."""

    since: Mapping[str, datetime]
    at_work: Mapping[str, AtWork]

    def on(self, table: str, uuid: str | None) -> InUse:
        """What is in use of one table. Where a lease cannot be read, everything may be."""
        leased = self.at_work.get(uuid or "", AtWork())
        return InUse(_EVER if leased.unknown else self.since.get(table), leased.snapshots)


def writers(deployment: Deployment) -> Writers:
    """Writers and compactions say that they are at work by their heartbeat, compactions also by their leases."""
    found: dict[str, datetime] = {}
    for beat in deployment.ledger.heartbeats.protecting(deployment.clock.now()):
        found[beat.table] = min(beat.since, found.get(beat.table, beat.since))
    return Writers(found, GroupLeases(deployment.leases, deployment.clock).at_work())
