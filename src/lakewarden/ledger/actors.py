"""How the person or schedule behind a run is stored: four columns, wherever one is recorded."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Row

from lakewarden.model.actor import Actor, Trigger


def actor_values(actor: Actor) -> dict[str, Any]:
    """The columns of an actor."""
    return {
        "operator": actor.operator,
        "worker": actor.worker,
        "trigger": actor.trigger.value,
        "ticket": actor.ticket,
    }


def actor_of(row: Row[Any]) -> Actor:
    """The actor in a row that has those columns."""
    return Actor(row.operator, row.worker, Trigger(row.trigger), row.ticket)
