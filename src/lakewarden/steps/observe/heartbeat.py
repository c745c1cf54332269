"""A writer's heartbeat: while it beats, the files it may be writing are nobody's orphans."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from lakewarden.model.ports import Heartbeat
from lakewarden.model.uri import FileUri
from lakewarden.steps.deployment import Deployment


def beat_once(
    deployment: Deployment, writer: str, table: str, prefix: str | None, location: Callable[[], str], ttl_seconds: int
) -> Heartbeat:
    """One beat of a writer that beats from elsewhere, under `prefix` or the table's location, since the first one."""
    now = deployment.clock.now()
    mine = [
        beat for beat in deployment.ledger.heartbeats.protecting(now) if (beat.writer, beat.table) == (writer, table)
    ]
    place = FileUri.parse(prefix).as_prefix() if prefix else None
    before = next((beat for beat in mine if place in (None, beat.prefix)), None)
    if place is None:
        place = before.prefix if before else FileUri.parse(location()).as_prefix()
    made = Heartbeat(writer, table, place, before.since if before else now, now, ttl_seconds)
    deployment.ledger.heartbeats.beat(made)
    return made


@contextmanager
def beating(deployment: Deployment, writer: str, table: str, prefix: str, ttl_seconds: int) -> Iterator[None]:
    """Beat now and every third of the time to live, until the block ends or the process dies."""
    since = deployment.clock.now()
    place = FileUri.parse(prefix).as_prefix()
    ended = threading.Event()

    def beat() -> None:
        deployment.ledger.heartbeats.beat(Heartbeat(writer, table, place, since, deployment.clock.now(), ttl_seconds))

    def keep_beating() -> None:
        while not ended.wait(ttl_seconds / 3):
            beat()

    beat()
    thread = threading.Thread(target=keep_beating, name=f"heartbeat {table}", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        deployment.ledger.heartbeats.end(writer, table)
