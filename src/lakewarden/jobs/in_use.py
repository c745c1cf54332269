"""Since when somebody has been at work on each table: expiry leaves them the snapshots that they started on."""

from __future__ import annotations

from datetime import datetime

from lakewarden.jobs.rooms import Rooms


def in_use_since(rooms: Rooms) -> dict[str, datetime]:
    """By table, when the oldest live work began. Writers and compactions say so by their heartbeat."""
    found: dict[str, datetime] = {}
    for beat in rooms.ledger.heartbeats.live(rooms.clock.now()):
        found[beat.table] = min(beat.since, found.get(beat.table, beat.since))
    return found
