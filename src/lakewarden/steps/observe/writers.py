"""Since when somebody has been at work on each table: expiry leaves them the snapshots that they started on."""

from __future__ import annotations

from datetime import datetime

from lakewarden.steps.deployment import Deployment


def in_use_since(deployment: Deployment) -> dict[str, datetime]:
    """By table, when the oldest live work began. Writers and compactions say so by their heartbeat."""
    found: dict[str, datetime] = {}
    for beat in deployment.ledger.heartbeats.live(deployment.clock.now()):
        found[beat.table] = min(beat.since, found.get(beat.table, beat.since))
    return found
