"""What the service was asked to do: rows that the web writes and runners claim, and what happened to each meanwhile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Row, and_, delete, or_, select, update

from lakewarden.ledger.actors import actor_of, actor_values
from lakewarden.ledger.connection import Connections, put
from lakewarden.ledger.request_events import Event, RequestEvents
from lakewarden.ledger.service_schema import events, requests
from lakewarden.model.actor import Actor
from lakewarden.model.errors import AbandonedRequestError, IdempotencyError, NotFoundError
from lakewarden.model.service import RequestKind, RequestStatus

# A runner beats every few seconds. One that was silent for so long is dead, or so cut off that its leases are lost too.
STALE = timedelta(seconds=60)
# A request that has killed so many runners is given up: the next would die over it too.
MOST_TAKEOVERS = 2
_LOOKED_AT = 200
OPEN = (RequestStatus.QUEUED, RequestStatus.RUNNING)


@dataclass(frozen=True, slots=True)
class Request:
    """Something to be done, and what became of it.

    `due_at` is the moment before which no runner takes it up. `takeovers` counts the runners that died over it.
    """

    request_id: str
    kind: RequestKind
    job: str | None
    arguments: dict[str, Any]
    actor: Actor
    status: RequestStatus
    created_at: datetime
    idempotency_key: str | None = None
    due_at: datetime | None = None
    claimed_by: str | None = None
    claimed_at: datetime | None = None
    beat_at: datetime | None = None
    takeovers: int = 0
    finished_at: datetime | None = None
    run_id: str | None = None
    plan_id: str | None = None
    plan_path: str | None = None
    result: dict[str, Any] | None = None
    error: dict[str, Any] | None = None
    cancel_asked_at: datetime | None = None
    cancel_asked_by: str | None = None


@dataclass(frozen=True, slots=True)
class Beat:
    """What a runner learns when it says that it is at work: whether the request is still its own, and to be stopped."""

    mine: bool
    cancel: bool


@dataclass(frozen=True, slots=True)
class Ended:
    """What came of a request."""

    status: RequestStatus
    run_id: str | None = None
    plan_id: str | None = None
    plan_path: str | None = None
    result: Mapping[str, Any] | None = field(default=None)
    error: Mapping[str, Any] | None = field(default=None)


RequestList = list[Request]


class Requests:
    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._events = RequestEvents(connections)

    def create(
        self,
        request_id: str,
        kind: RequestKind,
        actor: Actor,
        *,
        job: str | None = None,
        arguments: Mapping[str, Any] | None = None,
        idempotency_key: str | None = None,
        due_at: datetime | None = None,
    ) -> Request:
        """Ask for something. The same idempotency key gives the request that it first made.

        Raises IdempotencyError where that one asks for something else.
        """
        row = {
            "request_id": request_id,
            "kind": RequestKind(kind).value,
            "job": job,
            "arguments": dict(arguments or {}),
            "idempotency_key": idempotency_key,
            "status": RequestStatus.QUEUED.value,
            "created_at": self._connections.clock.now(),
            "due_at": due_at,
            **actor_values(actor),
        }
        with self._connections.write() as connection:
            found = self._of_key(connection, idempotency_key) if idempotency_key else None
            if found is None:
                # Of two that come at once with one key, PostgreSQL lets the second wait here and then do nothing.
                put(connection, requests, [row], only=(), unique=("idempotency_key",) if idempotency_key else ())
                found = self._of_key(connection, idempotency_key) if idempotency_key else None
            made = found or _request(connection.execute(_by_id(request_id)).one())
        if (made.kind, made.job, made.arguments) != (kind, job, row["arguments"]):
            raise IdempotencyError(
                f"the idempotency key {idempotency_key!r} belongs to request {made.request_id}, which asks for something "
                "else; nothing was done"
            )
        return made

    def claim(self, worker: str, after: Mapping[str, Sequence[str]] | None = None) -> Request | None:
        """Take up the next request that is due, for one worker alone; None where there is nothing to do.

        A request whose runner was silent for too long is taken over, by one worker; one that nobody survives is closed.
        `after` names, by job, the jobs that come before it: a scheduled request waits while one of theirs is open.
        """
        now = self._connections.clock.now()
        with self._connections.write() as connection:
            open_jobs = set(connection.execute(_SCHEDULED_AND_OPEN).scalars())
            for row in connection.execute(_claimable(now)).all():
                found = _request(row)
                if found.idempotency_key and found.status is RequestStatus.QUEUED:
                    first = set((after or {}).get(found.job or "", ()))
                    if found.idempotency_key.startswith(SCHEDULED) and first & open_jobs:
                        continue
                if found.status is RequestStatus.RUNNING and found.takeovers >= MOST_TAKEOVERS:
                    self._give_up(connection, found, now)
                    continue
                mine = {
                    "status": RequestStatus.RUNNING.value,
                    "claimed_by": worker,
                    "claimed_at": now,
                    "beat_at": now,
                    "takeovers": found.takeovers + (found.status is RequestStatus.RUNNING),
                }
                # PostgreSQL looks again at a row that somebody else has just taken, and leaves it to them.
                if connection.execute(_take(found, now).values(mine)).rowcount == 1:
                    return _request(connection.execute(_by_id(found.request_id)).one())
        return None

    def beat(self, request_id: str, worker: str) -> Beat:
        """Say that a worker is at work on a request."""
        with self._connections.write() as connection:
            values = {"beat_at": self._connections.clock.now()}
            mine = connection.execute(update(requests).where(_held(request_id, worker)).values(values)).rowcount == 1
            asked = connection.execute(
                select(requests.c.cancel_asked_at).where(requests.c.request_id == request_id)
            ).scalar()
        return Beat(mine, asked is not None)

    def event(self, request_id: str, name: str, detail: Mapping[str, Any] | None = None) -> None:
        """Note something that happened to a request, for whoever watches it."""
        self._events.add(request_id, name, detail)

    def events_after(self, request_id: str, event_id: int = 0, limit: int = 500) -> list[Event]:
        """What was noted after an event, in order."""
        return self._events.after(request_id, event_id, limit)

    def finish(self, request_id: str, worker: str, ended: Ended) -> bool:
        """Say what came of a request. False, and nothing is recorded, where it is not this worker's any more."""
        values = {
            "status": ended.status.value,
            "finished_at": self._connections.clock.now() if ended.status.is_over else None,
            "result": dict(ended.result) if ended.result is not None else None,
            "error": dict(ended.error) if ended.error is not None else None,
        }
        known = {"run_id": ended.run_id, "plan_id": ended.plan_id, "plan_path": ended.plan_path}
        values |= {name: value for name, value in known.items() if value is not None}
        with self._connections.write() as connection:
            return connection.execute(update(requests).where(_held(request_id, worker)).values(values)).rowcount == 1

    def note(self, request_id: str, worker: str, *, plan_id: str | None = None, plan_path: str | None = None) -> None:
        """Remember the plan that a request has made: whoever takes the request over goes on with that one."""
        values = {"plan_id": plan_id, "plan_path": plan_path}
        with self._connections.write() as connection:
            connection.execute(update(requests).where(_held(request_id, worker)).values(values))

    def give_back(self, request_id: str, worker: str, *, died: bool = False) -> bool:
        """Let another runner take the request up: this one was told to end, or has `died` over it. What was done stands."""
        values: dict[str, Any] = dict.fromkeys(("claimed_by", "claimed_at", "beat_at"))
        values |= {"status": RequestStatus.QUEUED.value, "takeovers": requests.c.takeovers + int(died)}
        with self._connections.write() as connection:
            return connection.execute(update(requests).where(_held(request_id, worker)).values(values)).rowcount == 1

    def left_by(self, worker: str) -> int:
        """Let whoever comes next take over what a worker that is known to be dead has left. How many requests that are."""
        dead = (requests.c.claimed_by == worker) & (requests.c.status == RequestStatus.RUNNING.value)
        long_ago = self._connections.clock.now() - 2 * STALE
        with self._connections.write() as connection:
            return connection.execute(update(requests).where(dead).values(beat_at=long_ago)).rowcount

    def close_waiting(self, request_id: str, ended: Ended) -> bool:
        """End a request that waited for a decision. False where it does not wait."""
        values = {
            "status": ended.status.value,
            "finished_at": self._connections.clock.now(),
            "error": dict(ended.error) if ended.error is not None else None,
        }
        waiting = (requests.c.request_id == request_id) & (requests.c.status == RequestStatus.WAITING.value)
        with self._connections.write() as connection:
            return connection.execute(update(requests).where(waiting).values(values)).rowcount == 1

    def trim(self, kind: RequestKind, before: datetime) -> int:
        """Forget requests of a kind that were over before a moment, with their events. How many they were."""
        old = select(requests.c.request_id).where(requests.c.kind == kind.value, requests.c.finished_at < before)
        with self._connections.write() as connection:
            connection.execute(delete(events).where(events.c.request_id.in_(old)))
            return connection.execute(delete(requests).where(requests.c.request_id.in_(old))).rowcount

    def ask_cancel(self, request_id: str, operator: str) -> Request:
        """Stop a request: one that nobody works on is over at once, one at work ends between two batches.

        Raises NotFoundError for an unknown request. One that is over stays as it is.
        """
        now = self._connections.clock.now()
        asked = {"cancel_asked_at": now, "cancel_asked_by": operator}
        idle = requests.c.status.in_([RequestStatus.QUEUED.value, RequestStatus.WAITING.value])
        running = (requests.c.status == RequestStatus.RUNNING.value) & requests.c.cancel_asked_at.is_(None)
        mine = requests.c.request_id == request_id
        over = {**asked, "status": RequestStatus.CANCELLED.value, "finished_at": now}
        with self._connections.write() as connection:
            connection.execute(update(requests).where(mine & idle).values(over))
            connection.execute(update(requests).where(mine & running).values(asked))
        return self.need(request_id)

    def get(self, request_id: str) -> Request | None:
        with self._connections.read() as connection:
            row = connection.execute(_by_id(request_id)).first()
        return _request(row) if row else None

    def need(self, request_id: str) -> Request:
        """The request of that id. Raises NotFoundError."""
        if (found := self.get(request_id)) is None:
            raise NotFoundError(f"there is no request {request_id}")
        return found

    def list(
        self,
        *,
        status: Sequence[RequestStatus] = (),
        job: str | None = None,
        plan_id: str | None = None,
        limit: int = 50,
        before: Request | None = None,
    ) -> RequestList:
        """The newest requests, newest first; `before` one that was seen already."""
        query = select(requests).order_by(requests.c.created_at.desc(), requests.c.request_id.desc()).limit(limit)
        if status:
            query = query.where(requests.c.status.in_([one.value for one in status]))
        if job is not None:
            query = query.where(requests.c.job == job)
        if plan_id is not None:
            query = query.where(requests.c.plan_id == plan_id)
        if before is not None:
            older = requests.c.created_at < before.created_at
            same = (requests.c.created_at == before.created_at) & (requests.c.request_id < before.request_id)
            query = query.where(or_(older, same))
        with self._connections.read() as connection:
            return [_request(row) for row in connection.execute(query)]

    def _give_up(self, connection: Connection, found: Request, now: datetime) -> None:
        error = AbandonedRequestError(
            f"{found.takeovers + 1} runners took request {found.request_id} up and died over it; it was given up"
        )
        values = {"status": RequestStatus.FAILED.value, "finished_at": now, "error": error_values(error)}
        connection.execute(_take(found, now).values(values))

    def _of_key(self, connection: Connection, key: str | None) -> Request | None:
        row = connection.execute(select(requests).where(requests.c.idempotency_key == key)).first()
        return _request(row) if row else None


SCHEDULED = "@schedule/"
"""How the idempotency keys of the schedule begin: no name of a token does."""

_SCHEDULED_AND_OPEN = select(requests.c.job).where(
    requests.c.idempotency_key.startswith(SCHEDULED, autoescape=True),
    requests.c.status.in_([status.value for status in OPEN]),
)


def error_values(error: Any) -> dict[str, Any]:
    """An error as requests keep it."""
    return {"code": error.code, "message": error.message, "hint": error.hint}


def _free(now: datetime) -> Any:
    """What may be taken up: due, or left by a runner that is silent."""
    due = or_(requests.c.due_at.is_(None), requests.c.due_at <= now)
    queued = and_(requests.c.status == RequestStatus.QUEUED.value, due)
    return or_(queued, and_(requests.c.status == RequestStatus.RUNNING.value, requests.c.beat_at < now - STALE))


def _claimable(now: datetime) -> Any:
    """Those, in the order in which they were asked for."""
    order = (requests.c.created_at, requests.c.request_id)
    return select(requests).where(_free(now)).order_by(*order).limit(_LOOKED_AT)


def _take(found: Request, now: datetime) -> Any:
    return update(requests).where(requests.c.request_id == found.request_id, _free(now))


def _by_id(request_id: str) -> Any:
    return select(requests).where(requests.c.request_id == request_id)


def _held(request_id: str, worker: str) -> Any:
    return and_(
        requests.c.request_id == request_id,
        requests.c.claimed_by == worker,
        requests.c.status == RequestStatus.RUNNING.value,
    )


def _request(row: Row[Any]) -> Request:
    values = dict(row._mapping)
    for name in ("operator", "worker", "trigger", "ticket"):
        del values[name]
    values |= {"kind": RequestKind(row.kind), "status": RequestStatus(row.status), "actor": actor_of(row)}
    return Request(**values)
