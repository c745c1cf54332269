"""Files that expiry released and physical deletion will remove: until then they are nobody else's to judge."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from datetime import datetime
from typing import NamedTuple

import pyarrow as pa
from sqlalchemy import delete, func, select, update

from lakewarden.ledger.bulk import INSTANT, delete_keys, put_columns, read_columns
from lakewarden.ledger.connection import Connections, chunks
from lakewarden.ledger.schema import pending, runs
from lakewarden.model.plan import Tally

CHUNK = 10_000
SMALL_CHUNK = 500
_OURS = ("run_id", "table_name")
# One row per file, as `iter_tables` gives them; and as they are entered.
WAITING = pa.schema(
    [
        ("uri", pa.string()),
        ("table", pa.string()),
        ("size", pa.int64()),
        ("modified", INSTANT),
        ("etag", pa.string()),
        ("kind", pa.string()),
        ("released_at", INSTANT),
    ]
)
ENTERED = pa.schema([(c.name, pa.string() if c.name in _OURS else WAITING.field(c.name).type) for c in pending.columns])


class Waiting(NamedTuple):
    """Files that wait to be deleted, and since when the first of them does."""

    tally: Tally
    since: datetime


class ReleasedFile(NamedTuple):
    """A released file: which run released it, of which table, and since when it waits."""

    run_id: str
    table: str
    released_at: datetime


class Pending:
    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    def add_rows(self, run_id: str, released_at: datetime, batches: Iterable[pa.RecordBatch]) -> None:
        """Enter files, all or none: rows of a plan, with `uri`, `table`, `size`, `modified`, `etag` and `kind`.

        One that is there already takes the newer release: its grace starts again.
        """
        with self._connections.write() as connection:
            put_columns(connection, pending, (_released(run_id, released_at, rows) for rows in batches))

    def strike(self, uris: Iterable[str]) -> int:
        """Strike files out, and say how many were there."""
        removed = 0
        with self._connections.write() as connection:
            for chunk in chunks(uris, CHUNK):
                removed += delete_keys(connection, pending.c.uri, chunk)
        return removed

    def take_back(self, run_id: str, table: str, planned_at: datetime) -> int:
        """Strike out what a run released of a table whose snapshots did not go after all.

        Nothing, if any other run of its job was open since it was planned: that one may have released the same files,
        and let them go. A file that waits and is needed does no harm; one that was let go and is not known here is
        taken for an orphan.
        """
        mine, other = runs.alias(), runs.alias()
        others = select(other.c.run_id).where(
            other.c.run_id != run_id,
            other.c.job == select(mine.c.job).where(mine.c.run_id == run_id).scalar_subquery(),
            other.c.finished_at.is_(None) | (other.c.finished_at >= planned_at),
        )
        query = delete(pending).where(pending.c.run_id == run_id, pending.c.table_name == table, ~others.exists())
        with self._connections.write() as connection:
            return connection.execute(query).rowcount

    def hold(self, tables: Collection[str], until: datetime) -> None:
        """Let whatever waits of these tables begin to wait only then."""
        query = update(pending).where(pending.c.table_name.in_(tables), pending.c.released_at < until)
        with self._connections.write() as connection:
            connection.execute(query.values(released_at=until))

    def iter_tables(self, due: datetime, batch: int = 100_000) -> Iterator[pa.Table]:
        """Every file released up to `due`, in tables of at most `batch` WAITING rows, by address."""
        columns = [pending.c["table_name" if name == "table" else name] for name in WAITING.names]
        query = select(*columns).where(pending.c.released_at <= due).order_by(pending.c.uri).limit(batch)
        after = ""
        while True:
            with self._connections.read() as connection:
                rows = read_columns(connection, query.where(pending.c.uri > after), WAITING)
            if rows.num_rows:
                yield rows
            if rows.num_rows < batch:
                return
            after = rows["uri"][-1].as_py()

    def renew(self, uris: Iterable[str], now: datetime) -> None:
        """Let files wait anew that were needed again meanwhile: whoever reads what needs them has the whole delay."""
        with self._connections.write() as connection:
            for chunk in chunks(uris, SMALL_CHUNK):
                connection.execute(update(pending).where(pending.c.uri.in_(chunk)).values(released_at=now))

    def renew_run(self, run_id: str, now: datetime) -> None:
        """The same for whatever one run released and nobody holds longer."""
        query = update(pending).where(pending.c.run_id == run_id, pending.c.released_at < now)
        with self._connections.write() as connection:
            connection.execute(query.values(released_at=now))

    def find(self, uri: str) -> ReleasedFile | None:
        """Since when a file waits, by which run; None if it does not."""
        query = select(pending.c.run_id, pending.c.table_name, pending.c.released_at).where(pending.c.uri == uri)
        with self._connections.read() as connection:
            row = connection.execute(query).first()
        return ReleasedFile(row.run_id, row.table_name, row.released_at) if row else None

    def count(self, run_id: str | None = None) -> int:
        """How many files wait, of one run or of all."""
        query = select(func.count()).select_from(pending)
        with self._connections.read() as connection:
            return int(
                connection.execute(query if run_id is None else query.where(pending.c.run_id == run_id)).scalar_one()
            )

    def waiting(self) -> dict[str, Waiting]:
        """What waits, by table."""
        counts = (func.count(), func.coalesce(func.sum(pending.c.size), 0), func.min(pending.c.released_at))
        query = select(pending.c.table_name, *counts).group_by(pending.c.table_name)
        with self._connections.read() as connection:
            rows = connection.execute(query).all()
        return {str(name): Waiting(Tally(int(files), int(size)), since) for name, files, size, since in rows}

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


def _released(run_id: str, released_at: datetime, rows: pa.RecordBatch) -> pa.RecordBatch:
    """Rows of a plan as the ledger keeps them."""
    if released_at.tzinfo is None:
        raise ValueError(f"an instant without a time zone: {released_at!r}")
    ours = {
        "run_id": pa.repeat(pa.scalar(run_id, pa.string()), rows.num_rows),
        "released_at": pa.repeat(pa.scalar(released_at, INSTANT), rows.num_rows),
        "table_name": rows["table"],
    }
    return pa.record_batch([ours[name] if name in ours else rows[name] for name in ENTERED.names], schema=ENTERED)
