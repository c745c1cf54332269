"""`/api/v1/heartbeats`: writers that have no access to the state say here that they are at work."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field

from lakewarden.model.errors import NotFoundError
from lakewarden.model.margins import MARGINS
from lakewarden.model.ports import Heartbeat as Beat
from lakewarden.service.access import Asked, Operator, Viewer
from lakewarden.service.api.shapes import ERRORS, Id, Open, Word

router = APIRouter(prefix="/api/v1", tags=["heartbeats"], responses=ERRORS)


class NewBeat(BaseModel):
    model_config = ConfigDict(extra="forbid")

    table: Word = Field(examples=["prod.sales.orders"])
    prefix: Annotated[str, Field(min_length=1, max_length=2000)] | None = Field(
        default=None, description="The directory that is written to; default: the table's location."
    )
    ttl_seconds: int = Field(default=MARGINS.heartbeat_seconds, ge=1, le=86400)


class Heartbeat(Open):
    """A writer at work. `silent`: it stopped beating without saying that it was done; its files stay in flight for a while."""

    writer: str
    table: str
    prefix: str
    since: datetime
    beat_at: datetime
    live_until: datetime
    protects_until: datetime
    silent: bool


class Heartbeats(Open):
    heartbeats: list[Heartbeat]


class Ended(Open):
    ended: int


@router.get("/heartbeats")
def heartbeats(user: Viewer, service: Asked) -> Heartbeats:
    """Every writer whose files are in flight now."""
    now = service.clock.now()
    return Heartbeats(heartbeats=[_shown(beat) for beat in service.ledger.heartbeats.protecting(now)])


@router.put("/heartbeats/{writer:path}")
def beat(user: Operator, service: Asked, writer: Id, body: NewBeat) -> Heartbeat:
    """Begin or go on beating. What the writer has written since the first beat is in flight until it ends, or falls silent."""
    return _shown(service.warden.beat(body.table, writer=writer, prefix=body.prefix, ttl_seconds=body.ttl_seconds))


@router.delete("/heartbeats/{writer:path}")
def end(user: Operator, service: Asked, writer: Id, table: Annotated[Word | None, Query()] = None) -> Ended:
    """The writer is done: with one table, or with all. Its files are judged like any others from the next plan on."""
    known = [
        beat for beat in service.ledger.heartbeats.every() if beat.writer == writer and table in (None, beat.table)
    ]
    if not known:
        raise NotFoundError(f"writer {writer} has no heartbeat{f' for {table}' if table else ''}; nothing was ended")
    for name in {beat.table for beat in known}:
        service.ledger.heartbeats.end(writer, name)
    return Ended(ended=len(known))


def _shown(beat: Beat) -> Heartbeat:
    return Heartbeat(
        writer=beat.writer,
        table=beat.table,
        prefix=beat.prefix,
        since=beat.since,
        beat_at=beat.beat_at,
        live_until=beat.live_until,
        protects_until=beat.live_until + MARGINS.heartbeat_grace,
        silent=beat.silent,
    )
