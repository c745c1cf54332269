"""A writer's heartbeat: while it beats, the files it may be writing are nobody's orphans."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

from lakewarden.logs import bind
from lakewarden.model.errors import LakewardenError
from lakewarden.model.ports import Heartbeat
from lakewarden.model.roots import claims_of
from lakewarden.model.table import TableState
from lakewarden.model.uri import FileUri
from lakewarden.steps.deployment import Deployment


def places_of(state: TableState) -> list[str]:
    """Every directory that a table's writers write to, its location first: `write.data.path` may lead elsewhere."""
    location = FileUri.parse(state.location).as_prefix()
    return list(dict.fromkeys((location, *(claim.prefix for claim in claims_of([state])))))


def beat_once(
    deployment: Deployment,
    writer: str,
    table: str,
    prefix: str | None,
    places: Callable[[], Sequence[str]],
    ttl_seconds: int,
) -> tuple[Heartbeat, ...]:
    """One beat of a writer that beats from elsewhere, since its first one: under `prefix`, or all places of its table."""
    now = deployment.clock.now()
    known = [
        beat for beat in deployment.ledger.heartbeats.protecting(now) if (beat.writer, beat.table) == (writer, table)
    ]
    since = {beat.prefix: beat.since for beat in known}
    wanted = [FileUri.parse(prefix).as_prefix()] if prefix else _everywhere(deployment, table, list(since), places)
    made = tuple(Heartbeat(writer, table, place, since.get(place, now), now, ttl_seconds) for place in wanted)
    deployment.ledger.heartbeats.beat_all(made)
    return made


def _everywhere(
    deployment: Deployment, table: str, known: Sequence[str], places: Callable[[], Sequence[str]]
) -> list[str]:
    """Where the table's writers write to, and wherever this one beat before. The catalogs are asked for its first beat."""
    seen = deployment.ledger.fleet.get(table) if known else None
    location = seen.detail.get("location") if seen else None
    if location and (home := FileUri.parse(str(location)).as_prefix()) in known:
        return list(dict.fromkeys((home, *known)))
    try:
        return list(dict.fromkeys((*places(), *known)))
    except LakewardenError:
        if not known:
            raise
        return list(known)  # a catalog that does not answer ends nothing that a writer has begun


@contextmanager
def beating(
    deployment: Deployment, writer: str, places: Mapping[str, Sequence[str]], ttl_seconds: int
) -> Iterator[None]:
    """Beat now and every third of the time to live, until the block ends or the process dies: for each of these tables, under
    its prefixes."""
    beats = _Beats(deployment, writer, places, ttl_seconds)
    ended = threading.Event()

    def keep_beating() -> None:
        while not ended.wait(ttl_seconds / 3):
            try:
                beats.beat()
            except Exception as error:
                # Tried again a moment later: a database that is locked for a while must not end the heartbeat of a writer
                # that goes on for days. What it writes stays in flight meanwhile.
                beats.tell("heartbeat not written", error)

    beats.beat()
    thread = threading.Thread(target=keep_beating, name="heartbeat", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        try:
            beats.end()
        except LakewardenError as error:
            # The files were committed or given up; that they stay in flight for a day more harms nobody.
            beats.tell("heartbeat not ended", error)


class _Beats:
    """The heartbeats of one block, for each of its places, and where it is not alone under its name."""

    def __init__(
        self, deployment: Deployment, writer: str, places: Mapping[str, Sequence[str]], ttl_seconds: int
    ) -> None:
        now = deployment.clock.now()
        every = dict.fromkeys(
            (table, FileUri.parse(prefix).as_prefix()) for table, prefixes in places.items() for prefix in prefixes
        )
        self._beats = [Heartbeat(writer, table, place, now, now, ttl_seconds) for table, place in every]
        self._deployment = deployment
        self._shared: set[tuple[str, str]] = set()
        self._begun = False

    def beat(self) -> None:
        now = self._deployment.clock.now()
        beats = [replace(before, beat_at=now) for before in self._beats]
        lasts = self._deployment.ledger.heartbeats.beat_all(beats)
        for beat, before, last in zip(beats, self._beats, lasts, strict=True):
            if last is not None and not (self._begun and last == before.beat_at):
                self._shared.add((beat.table, beat.prefix))
        self._beats, self._begun = beats, True

    def end(self) -> None:
        """Take back what is this block's alone. Where another goes by its name, or did until a while ago, the heartbeat may
        stand for files of the other: it falls silent by itself, and protects for the grace."""
        mine = [beat for beat in self._beats if (beat.table, beat.prefix) not in self._shared]
        self._deployment.ledger.heartbeats.end_all(mine)

    def tell(self, what: str, error: Exception) -> None:
        beat = self._beats[0]
        tables = ", ".join(dict.fromkeys(one.table for one in self._beats))
        bind(writer=beat.writer, table=tables).warning(what, error=f"{type(error).__name__}: {error}")
