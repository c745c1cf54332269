"""What happened to a request while it was worked on, in order: what a page shows live."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Row, insert, select

from lakewarden.ledger.connection import Connections
from lakewarden.ledger.service_schema import events


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened. Ids only ever rise."""

    event_id: int
    request_id: str
    at: datetime
    name: str
    detail: dict[str, Any] | None


class RequestEvents:
    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    def add(self, request_id: str, name: str, detail: Mapping[str, Any] | None) -> None:
        with self._connections.write() as connection:
            connection.execute(insert(events), event_values(request_id, self._connections.clock.now(), name, detail))

    def after(self, request_id: str, event_id: int, limit: int) -> list[Event]:
        query = select(events).where(events.c.request_id == request_id, events.c.event_id > event_id)
        with self._connections.read() as connection:
            rows = connection.execute(query.order_by(events.c.event_id).limit(limit)).all()
        return [_event(row) for row in rows]

    def newest(self, request_id: str, limit: int) -> list[Event]:
        query = select(events).where(events.c.request_id == request_id).order_by(events.c.event_id.desc()).limit(limit)
        with self._connections.read() as connection:
            return [_event(row) for row in reversed(connection.execute(query).all())]


def event_values(request_id: str, at: datetime, name: str, detail: Mapping[str, Any] | None) -> dict[str, Any]:
    return {"request_id": request_id, "at": at, "name": name, "detail": dict(detail) if detail is not None else None}


def _event(row: Row[Any]) -> Event:
    return Event(row.event_id, row.request_id, row.at, row.name, row.detail)
