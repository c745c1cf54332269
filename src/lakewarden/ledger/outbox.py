"""What is to be told by webhook: written with what it tells of, and kept until it was heard or given up."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Row, delete, insert, select, update

from lakewarden.ledger.connection import Connections
from lakewarden.ledger.outbox_table import outbox
from lakewarden.model.webhooks import Event

FIRST_WAIT, LONGEST_WAIT = timedelta(seconds=10), timedelta(hours=1)
# While one process tells it, no other does; a process that dies over it leaves it to the next after this time.
TELLING = timedelta(minutes=2)
GIVEN_UP_AFTER = timedelta(days=3)
KEPT_FOR = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class Delivery:
    """One event on its way to one webhook. Its `event_id` is the same at every try."""

    delivery_id: int
    event_id: str
    webhook: str
    kind: str
    content: dict[str, Any]
    at: datetime
    attempts: int
    delivered_at: datetime | None = None
    given_up_at: datetime | None = None
    last_error: str | None = None


class Outbox:
    """Without subscribers nothing is written."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._subscribers: Mapping[str, frozenset[str]] = {}

    def subscribe(self, subscribers: Mapping[str, frozenset[str]]) -> None:
        """From now on each of these webhooks, by name, is told of its kinds of events."""
        self._subscribers = dict(subscribers)

    def add(self, events: Iterable[Event]) -> None:
        """Tell of events that belong to no other change."""
        if self._subscribers:
            with self._connections.write() as connection:
                self.enter(connection, events)

    def enter(self, connection: Connection, events: Iterable[Event]) -> None:
        """Tell of events, in the transaction that they happen in."""
        if not self._subscribers:
            return
        now = self._connections.clock.now()
        rows = [
            {
                "event_id": hashlib.sha256(f"{name}/{event.about}".encode()).hexdigest()[:32],
                "webhook": name,
                "kind": str(event.kind),
                "content": dict(event.content),
                "at": now,
                "attempts": 0,
                "next_try": now,
            }
            for event in events
            for name, kinds in sorted(self._subscribers.items())
            if event.kind in kinds
        ]
        if rows:
            connection.execute(delete(outbox).where(outbox.c.at < now - KEPT_FOR))
            connection.execute(insert(outbox), rows)

    def waiting(self, webhooks: Iterable[str]) -> list[str]:
        """Those of these webhooks for which something is due. A look is no write."""
        due = _due(self._connections.clock.now()) & outbox.c.webhook.in_(list(webhooks))
        with self._connections.read() as connection:
            return list(connection.execute(select(outbox.c.webhook).where(due).distinct()).scalars())

    def take(self, webhooks: Iterable[str], limit: int = 20) -> list[Delivery]:
        """What is due for these webhooks, for this process alone for a while."""
        now = self._connections.clock.now()
        query = select(outbox).where(_due(now), outbox.c.webhook.in_(list(webhooks))).order_by(outbox.c.delivery_id)
        with self._connections.write() as connection:
            rows = connection.execute(query.limit(limit).with_for_update(skip_locked=True)).all()
            mine = outbox.c.delivery_id.in_([row.delivery_id for row in rows])
            values = {"attempts": outbox.c.attempts + 1, "next_try": now + TELLING}
            connection.execute(update(outbox).where(mine).values(values))
        return [_delivery(row) for row in rows]

    def heard(self, delivery: Delivery) -> None:
        """The webhook has answered well."""
        self._set(delivery, delivered_at=self._connections.clock.now(), last_error=None)

    def failed(self, delivery: Delivery, error: str) -> None:
        """The webhook did not answer well: it is told again, later each time, and not for ever."""
        now = self._connections.clock.now()
        wait = min(LONGEST_WAIT, FIRST_WAIT * 2 ** min(delivery.attempts, 16))
        over = now + wait - delivery.at > GIVEN_UP_AFTER
        self._set(delivery, next_try=now + wait, last_error=error, given_up_at=now if over else None)

    def list(self, limit: int = 100) -> list[Delivery]:
        """The newest deliveries, newest first."""
        with self._connections.read() as connection:
            rows = connection.execute(select(outbox).order_by(outbox.c.delivery_id.desc()).limit(limit))
            return [_delivery(row) for row in rows]

    def _set(self, delivery: Delivery, **values: Any) -> None:
        mine = outbox.c.delivery_id == delivery.delivery_id
        with self._connections.write() as connection:
            connection.execute(update(outbox).where(mine).values(values))


def _due(now: datetime) -> Any:
    return outbox.c.delivered_at.is_(None) & outbox.c.given_up_at.is_(None) & (outbox.c.next_try <= now)


def _delivery(row: Row[Any]) -> Delivery:
    return Delivery(**{name: getattr(row, name) for name in Delivery.__dataclass_fields__})
