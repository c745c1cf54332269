"""Files that expiry released and physical deletion will remove: until then they are nobody else's to judge."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import delete, func, select

from lakewarden.ledger.connection import Connections, chunks, put
from lakewarden.ledger.schema import pending
from lakewarden.model.plan import Tally

CHUNK = 1000


@dataclass(frozen=True, slots=True)
class PendingFile:
    """A file that no snapshot needs since `released_at`, by the expiry run that let it go, as that run listed it."""

    run_id: str
    table: str
    uri: str
    size: int
    released_at: datetime
    modified: datetime | None = None
    etag: str | None = None
    kind: str = "other"


class Pending:
    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    def add(self, files: Iterable[PendingFile]) -> None:
        """Enter files, all or none. One that is there already takes the newer release: its grace starts again."""
        with self._connections.write() as connection:
            for chunk in chunks(files, CHUNK):
                rows = {file.uri: _row(file) for file in chunk}
                put(connection, pending, list(rows.values()))

    def strike(self, uris: Iterable[str]) -> int:
        """Strike files out, and say how many were there."""
        removed = 0
        with self._connections.write() as connection:
            for chunk in chunks(uris, CHUNK):
                removed += connection.execute(delete(pending).where(pending.c.uri.in_(chunk))).rowcount
        return removed

    def take_back(self, run_id: str, table: str) -> int:
        """Strike out what a run released of a table whose snapshots did not go after all."""
        query = delete(pending).where(pending.c.run_id == run_id, pending.c.table_name == table)
        with self._connections.write() as connection:
            return connection.execute(query).rowcount

    def tally(self, due: datetime) -> dict[str, tuple[Tally, Tally]]:
        """By table: what was released up to `due`, and what later."""
        late = pending.c.released_at > due
        query = select(pending.c.table_name, late.label("late"), func.count(), func.sum(pending.c.size))
        found: dict[str, tuple[Tally, Tally]] = {}
        with self._connections.read() as connection:
            for name, is_late, count, size in connection.execute(query.group_by(pending.c.table_name, late)):
                before, after = found.get(name, (Tally(), Tally()))
                tally = Tally(int(count), int(size or 0))
                found[name] = (before, tally) if is_late else (tally, after)
        return found

    def iter_files(self, due: datetime, batch: int = 100_000) -> Iterator[list[PendingFile]]:
        """Every file released up to `due`, in lists of at most `batch`, by address."""
        after = ""
        while True:
            query = select(pending).where(pending.c.uri > after, pending.c.released_at <= due)
            with self._connections.read() as connection:
                rows = connection.execute(query.order_by(pending.c.uri).limit(batch)).all()
            if not rows:
                return
            yield [_file(row) for row in rows]
            after = rows[-1].uri

    def count(self) -> int:
        """How many files wait."""
        with self._connections.read() as connection:
            return int(connection.execute(select(func.count()).select_from(pending)).scalar_one())

    def iter_uris(self, batch: int = 10_000) -> Iterator[list[str]]:
        """Every waiting file, in lists of at most `batch`.

        Read table metadata before this, not after: expiry enters files before it commits, so whatever that metadata no
        longer reaches is then here.
        """
        query = select(pending.c.uri).order_by(pending.c.uri).limit(batch)
        after: str | None = None
        while True:
            with self._connections.read() as connection:
                page = query if after is None else query.where(pending.c.uri > after)
                uris = list(connection.execute(page).scalars())
            if not uris:
                return
            yield uris
            after = uris[-1]


def _row(file: PendingFile) -> dict[str, object]:
    return {
        "uri": file.uri,
        "run_id": file.run_id,
        "table_name": file.table,
        "size": file.size,
        "released_at": file.released_at,
        "modified": file.modified,
        "etag": file.etag,
        "kind": file.kind,
    }


def _file(row: Any) -> PendingFile:
    return PendingFile(
        row.run_id, row.table_name, row.uri, row.size, row.released_at, row.modified, row.etag, row.kind
    )  # fmt: skip
