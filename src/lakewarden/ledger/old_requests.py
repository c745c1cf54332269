"""Which requests are forgotten: those that were over long ago, and the oldest of too many."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import and_, delete, or_, select

from lakewarden.ledger.connection import Connections
from lakewarden.ledger.service_schema import events, requests
from lakewarden.model.service import RequestKind, RequestStatus

# In one transaction, with the events of each: nobody who writes meanwhile waits for years of them.
AT_A_TIME = 100


class OldRequests:
    """Runs, plans, decisions and the journal stay: a request is only how they were asked for."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    def forget(self, before: datetime, looks_before: datetime, most: int) -> int:
        """Forget some requests that are over, the oldest first, with their events. How many; 0: none is left to forget.

        Those are requests that ended before a moment, looks at the fleet that ended before another, and those that are
        older than the newest `most`. The last look that was done stays: it says which jobs the tables themselves enable.
        """
        with self._connections.write() as connection:
            beyond = connection.execute(_NEWEST.offset(most).limit(1)).scalar()
            aged = or_(requests.c.finished_at < before, and_(_LOOK, requests.c.finished_at < looks_before))
            chosen = aged if beyond is None else or_(aged, requests.c.created_at <= beyond)
            last_look = connection.execute(_LAST_LOOK).scalar()
            query = select(requests.c.request_id).where(
                requests.c.finished_at.is_not(None), requests.c.request_id != (last_look or ""), chosen
            )
            # Of two daemons that forget at once, each takes other rows.
            query = query.order_by(requests.c.created_at).limit(AT_A_TIME).with_for_update(skip_locked=True)
            old = list(connection.execute(query).scalars())
            if old:
                connection.execute(delete(events).where(events.c.request_id.in_(old)))
                connection.execute(delete(requests).where(requests.c.request_id.in_(old)))
        return len(old)


_LOOK = requests.c.kind == RequestKind.OBSERVE.value
_NEWEST: Any = select(requests.c.created_at).order_by(requests.c.created_at.desc(), requests.c.request_id.desc())
_LAST_LOOK: Any = (
    select(requests.c.request_id)
    .where(_LOOK, requests.c.status == RequestStatus.DONE.value)
    .order_by(requests.c.created_at.desc(), requests.c.request_id.desc())
    .limit(1)
)
