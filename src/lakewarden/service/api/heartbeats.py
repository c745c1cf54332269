"""`/api/v1/heartbeats`: writers that have no access to the state say here that they are at work."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field

from lakewarden.ledger.heartbeats import BeatRecord
from lakewarden.model.errors import ForbiddenError, NotFoundError
from lakewarden.model.margins import MARGINS
from lakewarden.model.ports import Heartbeat as Beat
from lakewarden.model.service import Role
from lakewarden.service.access import Asked, Operator, Viewer
from lakewarden.service.api.shapes import ERRORS, Id, Open, Word

router = APIRouter(prefix="/api/v1", tags=["heartbeats"], responses=ERRORS)


class NewBeat(BaseModel):
    model_config = ConfigDict(extra="forbid")

    table: Word = Field(examples=["prod.sales.orders"])
    prefix: Annotated[str, Field(min_length=1, max_length=2000)] | None = Field(
        default=None,
        description="The directory that is written to; default: every one that the table's writers write to.",
    )
    ttl_seconds: int = Field(default=MARGINS.heartbeat_seconds, ge=1, le=86400)


class Heartbeat(Open):
    """A writer at work under one prefix. `silent`: it stopped beating, or `ended_by` said that it was done; its files stay
    in flight for a while. `made_by` is the token that may end it, besides an approver's; None: it was made straight in the
    state."""

    writer: str
    table: str
    prefix: str
    since: datetime
    beat_at: datetime
    live_until: datetime
    protects_until: datetime
    silent: bool
    made_by: str | None
    ended_by: str | None
    ended_at: datetime | None


class Heartbeats(Open):
    heartbeats: list[Heartbeat]


class Ended(Open):
    ended: int


@router.get("/heartbeats")
def heartbeats(user: Viewer, service: Asked) -> Heartbeats:
    """Every writer whose files are in flight now."""
    found = service.ledger.heartbeats.records(service.clock.now())
    return Heartbeats(heartbeats=[_shown(record) for record in found])


@router.put("/heartbeats/{writer:path}")
def beat(user: Operator, service: Asked, writer: Id, body: NewBeat) -> Heartbeat:
    """Begin or go on beating. What the writer has written since the first beat is in flight until a day after it ends, or
    falls silent."""
    ledger = service.ledger.heartbeats
    made = service.warden.beat(body.table, writer=writer, prefix=body.prefix, ttl_seconds=body.ttl_seconds)
    for one in made:
        if one.since == one.beat_at:
            ledger.begun_by(one, user.name)
    first = made[0]
    mine = [one for one in ledger.records(first.beat_at) if _key(one.beat) == _key(first)]
    return _shown(mine[0] if mine else BeatRecord(first, None, None, None))


@router.delete("/heartbeats/{writer:path}")
def end(user: Operator, service: Asked, writer: Id, table: Annotated[Word | None, Query()] = None) -> Ended:
    """The writer is done: with one table, or with all. Only the token that began to beat may say so, and an approver; its
    files stay in flight for a day more."""
    ledger, now = service.ledger.heartbeats, service.clock.now()
    known = [one for one in ledger.records(now) if one.beat.writer == writer and table in (None, one.beat.table)]
    open_ones = [one for one in known if one.ended_at is None]
    if not open_ones:
        raise NotFoundError(f"writer {writer} has no heartbeat{f' for {table}' if table else ''}; nothing was ended")
    for one in open_ones:
        if one.made_by != user.name and not user.may(Role.APPROVER):
            raise ForbiddenError(
                f"the heartbeat of {writer} for {one.beat.table} was begun by {one.made_by or 'a writer in the state'}, and "
                f"is not {user.name}'s to end; nothing was ended",
                hint="It runs out by itself when its writer falls silent. An approver can end it before.",
            )
    for one in open_ones:
        ledger.cut_short(one.beat, user.name, now)
    return Ended(ended=len(open_ones))


def _key(beat: Beat) -> tuple[str, str, str]:
    return beat.writer, beat.table, beat.prefix


def _shown(record: BeatRecord) -> Heartbeat:
    beat = record.beat
    return Heartbeat(
        writer=beat.writer,
        table=beat.table,
        prefix=beat.prefix,
        since=beat.since,
        beat_at=beat.beat_at,
        live_until=beat.live_until,
        protects_until=beat.live_until + MARGINS.heartbeat_grace,
        silent=beat.silent,
        made_by=record.made_by,
        ended_by=record.ended_by,
        ended_at=record.ended_at,
    )
