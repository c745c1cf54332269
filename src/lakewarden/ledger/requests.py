"""What the service was asked to do: rows that the web writes and runners claim, and what happened to each meanwhile."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Row, and_, func, insert, or_, select, update

from lakewarden.ledger.actors import actor_of, actor_values
from lakewarden.ledger.connection import Connections, put
from lakewarden.ledger.old_requests import OldRequests
from lakewarden.ledger.request_events import Event, RequestEvents, event_values
from lakewarden.ledger.service_schema import events, requests
from lakewarden.model.actor import Actor, Trigger
from lakewarden.model.errors import CancelledError, IdempotencyError, NotFoundError
from lakewarden.model.service import RequestKind, RequestStatus

# A runner beats every few seconds. One that was silent for so long is dead, or so cut off that its leases are lost too.
STALE = timedelta(seconds=60)
# The beat of a runner whose process has ended: whoever comes next need not watch it for a while.
KNOWN_DEAD = datetime(1970, 1, 1, tzinfo=UTC)
# A request that was taken over more often is given up: the next runner would die over it too.
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

    @property
    def is_deadly(self) -> bool:
        """Whether nobody survives it: it is given up, and not begun once more."""
        return self.takeovers > MOST_TAKEOVERS


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
        self._old = OldRequests(connections)
        self._sightings: dict[str, tuple[datetime | None, float]] = {}

    def create(
        self,
        request_id: str,
        kind: RequestKind,
        actor: Actor,
        *,
        job: str | None = None,
        arguments: Mapping[str, Any] | None = None,
        plan_id: str | None = None,
        idempotency_key: str | None = None,
        due_at: datetime | None = None,
    ) -> Request:
        """Ask for something. The same idempotency key gives the request that it first made.

        `plan_id` is the plan that it is about. Raises IdempotencyError where that one asks for something else.
        """
        row = {
            "request_id": request_id,
            "kind": RequestKind(kind).value,
            "job": job,
            "arguments": dict(arguments or {}),
            "plan_id": plan_id,
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

    def claim(
        self, worker: str, after: Mapping[str, Sequence[str]] | None = None, held: Collection[str] = ()
    ) -> Request | None:
        """Take up the next request that is due, for one worker alone; None where there is nothing to do.

        A request whose runner was silent while this process looked on is taken over, by one worker.
        `after` names, by job, the jobs that come before it: a scheduled request waits while one of theirs is open.
        `held` are jobs of which nothing that the schedule asked for may begin now; what was begun goes on.
        """
        now = self._connections.clock.now()
        with self._connections.write() as connection:
            open_jobs = set(connection.execute(_SCHEDULED_AND_OPEN).scalars())
            looked_at = [_request(row) for row in connection.execute(_claimable(now))]
            silent = self._silent(looked_at, self._connections.clock.boot())
            for found in looked_at:
                if found.status is RequestStatus.RUNNING and found.request_id not in silent:
                    continue
                if found.status is RequestStatus.QUEUED and _waits(found, after or {}, open_jobs, held):
                    continue
                mine = {
                    "status": RequestStatus.RUNNING.value,
                    "claimed_by": worker,
                    "claimed_at": now,
                    "beat_at": now,
                    "takeovers": found.takeovers + (found.status is RequestStatus.RUNNING),
                }
                # PostgreSQL looks again at a row that somebody else has just taken, and leaves it to them.
                if connection.execute(_take(found).values(mine)).rowcount == 1:
                    self._sightings[found.request_id] = (now, self._connections.clock.boot())
                    return _request(connection.execute(_by_id(found.request_id)).one())
        return None

    def _silent(self, looked_at: Sequence[Request], now: float) -> set[str]:
        """Which of these are held by a runner that has said nothing for too long, by this process's own seconds alone.

        The moment that a runner writes is of its clock, which may be minutes away from this one, and either may be put
        forward or back: what counts is for how many seconds it has been the same.
        """
        before, self._sightings, silent = self._sightings, {}, set()
        for one in looked_at:
            if one.status is not RequestStatus.RUNNING:
                continue
            beat, since = before.get(one.request_id, (one.beat_at, now))
            if beat != one.beat_at:
                since = now
            self._sightings[one.request_id] = (one.beat_at, since)
            if one.beat_at == KNOWN_DEAD or now - since >= STALE.total_seconds():
                silent.add(one.request_id)
        return silent

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

    def newest_events(self, request_id: str, limit: int = 500) -> list[Event]:
        """What was noted last, in order: the end of a long story, not its beginning."""
        return self._events.newest(request_id, limit)

    def finish(
        self, request_id: str, worker: str, ended: Ended, event: tuple[str, Mapping[str, Any] | None] | None = None
    ) -> bool:
        """Say what came of a request, with an event. False, and nothing is recorded, where it is not this worker's any more.

        One that was cancelled in the moment in which its plan was made waits for nobody's decision.
        """
        known = {"run_id": ended.run_id, "plan_id": ended.plan_id, "plan_path": ended.plan_path}
        noted = {name: value for name, value in known.items() if value is not None}
        mine = _held(request_id, worker)
        with self._connections.write() as connection:
            now = self._connections.clock.now()
            wanted = mine & requests.c.cancel_asked_at.is_(None) if ended.status is RequestStatus.WAITING else mine
            found = connection.execute(update(requests).where(wanted).values(_end(ended, now) | noted)).rowcount
            if not found and ended.status is RequestStatus.WAITING:
                error = CancelledError(
                    f"request {request_id} was cancelled when its plan was made; nothing was changed"
                )
                cancelled = _end(Ended(RequestStatus.CANCELLED, error=error_values(error)), now) | noted
                found = connection.execute(update(requests).where(mine).values(cancelled)).rowcount
                event = (str(RequestStatus.CANCELLED), {"error": error_values(error)}) if event else None
            if found and event is not None:
                connection.execute(insert(events), event_values(request_id, now, *event))
        return found == 1

    def note(self, request_id: str, worker: str, *, plan_id: str | None = None, plan_path: str | None = None) -> None:
        """Remember the plan that a request has made: whoever takes the request over goes on with that one."""
        values = {"plan_id": plan_id, "plan_path": plan_path}
        with self._connections.write() as connection:
            connection.execute(update(requests).where(_held(request_id, worker)).values(values))

    def give_back(self, request_id: str, worker: str, *, died: bool = False, pause: timedelta = timedelta()) -> bool:
        """Let another runner take the request up, after a pause: this one was told to end, or has `died` over it.

        What was done stands.
        """
        values: dict[str, Any] = dict.fromkeys(("claimed_by", "claimed_at", "beat_at"))
        values |= {"status": RequestStatus.QUEUED.value, "takeovers": requests.c.takeovers + int(died)}
        if pause:
            values["due_at"] = self._connections.clock.now() + pause
        with self._connections.write() as connection:
            return connection.execute(update(requests).where(_held(request_id, worker)).values(values)).rowcount == 1

    def left_by(self, worker: str) -> int:
        """Let whoever comes next take over what a worker that is known to be dead has left. How many requests that are."""
        dead = (requests.c.claimed_by == worker) & (requests.c.status == RequestStatus.RUNNING.value)
        with self._connections.write() as connection:
            return connection.execute(update(requests).where(dead).values(beat_at=KNOWN_DEAD)).rowcount

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

    def forget(self, before: datetime, looks_before: datetime, most: int) -> int:
        """Forget some requests that are over: those that ended before a moment (looks at the fleet: before another), and the
        oldest beyond `most`. How many; 0: none is left to forget."""
        return self._old.forget(before, looks_before, most)

    def ask_cancel(self, request_id: str, operator: str) -> Request:
        """Stop a request: one that nobody works on is over at once, one at work ends between two batches.

        Raises NotFoundError for an unknown request. One that is over stays as it is.
        """
        now = self._connections.clock.now()
        asked = {"cancel_asked_at": now, "cancel_asked_by": operator}
        over = {**asked, "status": RequestStatus.CANCELLED.value, "finished_at": now}
        with self._connections.write() as connection:
            # Under its lock: a runner may be about to give it back, and then neither of two changes would meet it.
            row = connection.execute(_by_id(request_id).with_for_update()).first()
            if row is not None and row.status in (RequestStatus.QUEUED.value, RequestStatus.WAITING.value):
                connection.execute(update(requests).where(requests.c.request_id == request_id).values(over))
            elif row is not None and row.status == RequestStatus.RUNNING.value and row.cancel_asked_at is None:
                connection.execute(update(requests).where(requests.c.request_id == request_id).values(asked))
        return self.need(request_id)

    def get(self, request_id: str) -> Request | None:
        with self._connections.read() as connection:
            row = connection.execute(_by_id(request_id)).first()
        return _request(row) if row else None

    def of_key(self, key: str) -> Request | None:
        """The request that was made with an idempotency key."""
        with self._connections.read() as connection:
            return self._of_key(connection, key)

    def need(self, request_id: str) -> Request:
        """The request of that id. Raises NotFoundError."""
        if (found := self.get(request_id)) is None:
            raise NotFoundError(f"there is no request {request_id}")
        return found

    def list(
        self,
        *,
        status: Sequence[RequestStatus] = (),
        kind: RequestKind | None = None,
        job: str | None = None,
        plan_id: str | None = None,
        limit: int = 50,
        before: Request | None = None,
    ) -> RequestList:
        """The newest requests, newest first; `before` one that was seen already."""
        query = select(requests).order_by(requests.c.created_at.desc(), requests.c.request_id.desc()).limit(limit)
        if status:
            query = query.where(requests.c.status.in_([one.value for one in status]))
        if kind is not None:
            query = query.where(requests.c.kind == kind.value)
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

    def ended_since(self, job: str, kinds: Sequence[RequestKind], since: datetime) -> RequestList:
        """The requests of a job that are over, of these kinds, and ended at a moment or after it; the last one first."""
        over = (requests.c.job == job) & (requests.c.finished_at >= since)
        query = select(requests).where(over, requests.c.kind.in_([kind.value for kind in kinds]))
        with self._connections.read() as connection:
            found = connection.execute(query.order_by(requests.c.finished_at.desc(), requests.c.request_id.desc()))
            return [_request(row) for row in found]

    def counts(self, status: Sequence[RequestStatus]) -> dict[RequestStatus, int]:
        """How many requests are in each of these states: for those that few are in at a time."""
        query = select(requests.c.status, func.count()).group_by(requests.c.status)
        with self._connections.read() as connection:
            found = connection.execute(query.where(requests.c.status.in_([one.value for one in status])))
            return dict.fromkeys(status, 0) | {RequestStatus(name): int(count) for name, count in found}

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


def _end(ended: Ended, now: datetime) -> dict[str, Any]:
    return {
        "status": ended.status.value,
        "finished_at": now if ended.status.is_over else None,
        "result": dict(ended.result) if ended.result is not None else None,
        "error": dict(ended.error) if ended.error is not None else None,
    }


def _waits(found: Request, after: Mapping[str, Sequence[str]], open_jobs: Set[str], held: Collection[str]) -> bool:
    """Whether something that the schedule asked for, or a night did, may not begin yet."""
    if not (found.idempotency_key or "").startswith(SCHEDULED):
        return False
    if not open_jobs.isdisjoint(after.get(found.job or "", ())):
        return True
    return found.actor.trigger is Trigger.SCHEDULE and found.job in held


def _claimable(now: datetime) -> Any:
    """What is due, and what somebody works on, in the order in which they were asked for."""
    # What was due when it was asked for stays due where the clock is put back.
    due = or_(requests.c.due_at.is_(None), requests.c.due_at <= now, requests.c.due_at <= requests.c.created_at)
    queued = and_(requests.c.status == RequestStatus.QUEUED.value, due)
    order = (requests.c.created_at, requests.c.request_id)
    at_work = requests.c.status == RequestStatus.RUNNING.value
    return select(requests).where(or_(queued, at_work)).order_by(*order).limit(_LOOKED_AT)


def _take(found: Request) -> Any:
    """A change of a request that is still as it was found: nobody has taken it since, nor said that they are at work."""
    same = [requests.c[name].is_not_distinct_from(getattr(found, name)) for name in ("status", "claimed_by", "beat_at")]
    return update(requests).where(requests.c.request_id == found.request_id, *same)


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
