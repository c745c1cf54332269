"""A writer's heartbeat: while it beats, the files it may be writing are nobody's orphans."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
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
    for beat in made:
        deployment.ledger.heartbeats.beat(beat)
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
    deployment: Deployment, writer: str, table: str, prefixes: Sequence[str], ttl_seconds: int
) -> Iterator[None]:
    """Beat now and every third of the time to live, until the block ends or the process dies."""
    beats = _Beats(deployment, writer, table, prefixes, ttl_seconds)
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
    thread = threading.Thread(target=keep_beating, name=f"heartbeat {table}", daemon=True)
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
    """The heartbeats of one block, under each of its prefixes, and whether it is alone under its name."""

    def __init__(
        self, deployment: Deployment, writer: str, table: str, prefixes: Sequence[str], ttl_seconds: int
    ) -> None:
        now = deployment.clock.now()
        places = dict.fromkeys(FileUri.parse(prefix).as_prefix() for prefix in prefixes)
        self._beats = [Heartbeat(writer, table, place, now, now, ttl_seconds) for place in places]
        self._deployment = deployment
        self._shared: set[str] = set()
        self._begun = False

    def beat(self) -> None:
        for place, before in enumerate(self._beats):
            beat = replace(before, beat_at=self._deployment.clock.now())
            last = self._deployment.ledger.heartbeats.beat(beat)
            if last is not None and not (self._begun and last == before.beat_at):
                self._shared.add(beat.prefix)
            self._beats[place] = beat
        self._begun = True

    def end(self) -> None:
        """Take back what is this block's alone. Where another goes by its name, or did until a while ago, the heartbeat may
        stand for files of the other: it falls silent by itself, and protects for the grace."""
        for beat in self._beats:
            if beat.prefix not in self._shared:
                self._deployment.ledger.heartbeats.end(beat)

    def tell(self, what: str, error: Exception) -> None:
        beat = self._beats[0]
        bind(writer=beat.writer, table=beat.table).warning(what, error=f"{type(error).__name__}: {error}")
