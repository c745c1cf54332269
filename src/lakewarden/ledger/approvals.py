"""What people decided on plans: agreed or rejected, who, when and why. A plan is decided on once, and not by its planner."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Row, select

from lakewarden.ledger.actors import actor_of, actor_values
from lakewarden.ledger.connection import Connections, chunks, put
from lakewarden.ledger.service_schema import approvals
from lakewarden.model.actor import Actor, person_of
from lakewarden.model.errors import ApprovalError
from lakewarden.model.service import Decision

_CHUNK = 500


@dataclass(frozen=True, slots=True)
class Approval:
    """A decision on one plan."""

    plan_id: str
    decision: Decision
    actor: Actor
    reason: str
    planned_by: str
    at: datetime


class Approvals:
    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    def decide(self, plan_id: str, decision: Decision, actor: Actor, *, planned_by: str, reason: str = "") -> Approval:
        """Record what somebody decided on a plan. The same decision by the same person again is the same one.

        Raises ApprovalError where the planner decides on their own plan, or the plan was decided on already.
        """
        if person_of(actor.operator) == person_of(planned_by):
            raise ApprovalError(f"{planned_by} made plan {plan_id}, and cannot decide on it; nothing was recorded")
        row = {
            "plan_id": plan_id,
            "decision": Decision(decision).value,
            "reason": reason,
            "planned_by": planned_by,
            "at": self._connections.clock.now(),
        }
        with self._connections.write() as connection:
            put(connection, approvals, [row | actor_values(actor)], only=())
            found = _approval(connection.execute(select(approvals).where(approvals.c.plan_id == plan_id)).one())
        if (found.decision, found.actor.operator) != (decision, actor.operator):
            raise ApprovalError(
                f"plan {plan_id} was {found.decision} by {found.actor.operator} on {found.at:%Y-%m-%d %H:%M} UTC; that stays"
            )
        return found

    def get(self, plan_id: str) -> Approval | None:
        with self._connections.read() as connection:
            row = connection.execute(select(approvals).where(approvals.c.plan_id == plan_id)).first()
        return _approval(row) if row else None

    def of(self, plan_ids: Iterable[str]) -> dict[str, Approval]:
        """The decisions on these plans, by plan."""
        found: dict[str, Approval] = {}
        with self._connections.read() as connection:
            for some in chunks(plan_ids, _CHUNK):
                query = select(approvals).where(approvals.c.plan_id.in_(some))
                found |= {row.plan_id: _approval(row) for row in connection.execute(query)}
        return found

    def list(self, limit: int = 50) -> list[Approval]:
        """The newest decisions, newest first."""
        query = select(approvals).order_by(approvals.c.at.desc(), approvals.c.plan_id).limit(limit)
        with self._connections.read() as connection:
            return [_approval(row) for row in connection.execute(query)]


def _approval(row: Row[Any]) -> Approval:
    return Approval(row.plan_id, Decision(row.decision), actor_of(row), row.reason, row.planned_by, row.at)
