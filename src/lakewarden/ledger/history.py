"""The index of the archive of snapshots: which files it has, which snapshots are in them, and the summaries of months."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import Connection, RowMapping, Select, delete, func, insert, select, update

from lakewarden.ledger.connection import Connections, chunks, put
from lakewarden.ledger.schema import history_files, history_months, history_snapshots

CHUNK = 500


class Key(NamedTuple):
    """What tells one archived snapshot from every other."""

    uuid: str
    snapshot_id: int
    digest: str


@dataclass(frozen=True, slots=True)
class HistoryFile:
    """One file of the archive. `first_ms` and `last_ms` are when its oldest and newest snapshot were committed."""

    uri: str
    sha256: str
    rows: int
    bytes: int
    first_ms: int
    last_ms: int
    run_id: str
    file_id: int = 0
    lost: str | None = None


@dataclass(frozen=True, slots=True)
class Month:
    """The summary of one month: so many lines, that sum up so many snapshots."""

    month: str
    uri: str
    sha256: str
    lines: int
    snapshots: int
    made_at: datetime


class Entry(NamedTuple):
    """A snapshot that is entered, and the month (UTC, 2026-11) in which it was committed."""

    key: Key
    month: str


class Place(NamedTuple):
    """An archived snapshot, and the file that has its row."""

    key: Key
    file: HistoryFile


class History:
    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    def add(self, file: HistoryFile, entries: Sequence[Entry]) -> bool:
        """Enter a file with all its snapshots, or nothing: False if one of them is archived already.

        Two workers that archive the same snapshot at once both write a file; only the first one's counts.
        """
        with self._connections.write() as connection:
            if any(True for _ in _known(connection, [entry.key for entry in entries])):
                return False
            values = {name: getattr(file, name) for name in ("uri", "sha256", "rows", "bytes", "first_ms", "last_ms")}
            values |= {"run_id": file.run_id, "added_at": self._connections.clock.now(), "lost": None}
            number = connection.execute(
                select(history_files.c.file_id).where(history_files.c.uri == file.uri)
            ).scalar_one_or_none()
            if number is None:
                added = connection.execute(insert(history_files).values(**values).returning(history_files.c.file_id))
                number = added.scalar_one()
            else:
                # The same rows as before, put back after the file was lost.
                connection.execute(update(history_files).where(history_files.c.file_id == number).values(**values))
            _enter(connection, entries, number)
            return True

    def known(self, keys: Iterable[Key]) -> set[Key]:
        """Those of the snapshots that are archived."""
        with self._connections.read() as connection:
            return {place for place in _known(connection, list(keys))}

    def of_table(self, uuid: str, snapshots: Iterable[int]) -> list[Place]:
        """Where the archive has these snapshots of a table."""
        return self._found(_places().where(history_snapshots.c.uuid == uuid), snapshots)

    def with_ids(self, snapshots: Iterable[int]) -> list[Place]:
        """Where the archive has snapshots of these ids, of whichever table."""
        return self._found(_places(), snapshots)

    def files(self) -> list[HistoryFile]:
        """Every file, in the order in which they were entered; those that are lost too."""
        columns = [history_files.c[name] for name in HistoryFile.__dataclass_fields__]
        with self._connections.read() as connection:
            rows = connection.execute(select(*columns).order_by(history_files.c.file_id)).mappings().all()
        return [HistoryFile(**row) for row in rows]

    def snapshots(self) -> int:
        """How many snapshots are archived."""
        with self._connections.read() as connection:
            return int(connection.execute(select(func.count()).select_from(history_snapshots)).scalar_one())

    def lose(self, uri: str, why: str) -> int:
        """Note that a file is gone or damaged: its snapshots count as not archived. How many those were."""
        with self._connections.write() as connection:
            file = select(history_files.c.file_id).where(history_files.c.uri == uri).scalar_subquery()
            gone = connection.execute(delete(history_snapshots).where(history_snapshots.c.file_id == file)).rowcount
            connection.execute(update(history_files).where(history_files.c.uri == uri).values(lost=why))
        return int(gone)

    def find_again(self, uri: str, entries: Sequence[Entry]) -> int:
        """Let a lost file count again, with those of its snapshots that no other file has by now. How many those are."""
        with self._connections.write() as connection:
            lost = select(history_files.c.file_id).where(history_files.c.uri == uri, history_files.c.lost.is_not(None))
            if (number := connection.execute(lost).scalar_one_or_none()) is None:
                return 0
            known = set(_known(connection, [entry.key for entry in entries]))
            connection.execute(update(history_files).where(history_files.c.file_id == number).values(lost=None))
            fresh = [entry for entry in entries if entry.key not in known]
            _enter(connection, fresh, number)
            return len(fresh)

    def by_month(self) -> dict[tuple[str, str], int]:
        """How many snapshots each table has in each month, by (month, uuid): what summaries have to add up to."""
        kind = (history_snapshots.c.month, history_snapshots.c.uuid)
        with self._connections.read() as connection:
            rows = connection.execute(select(*kind, func.count()).group_by(*kind))
            return {(month, uuid): int(count) for month, uuid, count in rows}

    def set_month(self, month: Month) -> None:
        """Enter a month's summary; it takes the place of the one before."""
        with self._connections.write() as connection:
            put(connection, history_months, [{name: getattr(month, name) for name in Month.__dataclass_fields__}])

    def months(self) -> list[Month]:
        """Every month that has a summary, oldest first."""
        with self._connections.read() as connection:
            rows = connection.execute(select(history_months).order_by(history_months.c.month)).mappings().all()
        return [Month(**row) for row in rows]

    def _found(self, query: Select[Any], snapshots: Iterable[int]) -> list[Place]:
        found: list[Place] = []
        with self._connections.read() as connection:
            for chunk in chunks(snapshots, CHUNK):
                rows = connection.execute(query.where(history_snapshots.c.snapshot_id.in_(chunk)))
                found += [_place(row._mapping) for row in rows]
        return found


def _enter(connection: Connection, entries: Sequence[Entry], number: int) -> None:
    for chunk in chunks(entries, CHUNK):
        rows = [entry.key._asdict() | {"month": entry.month, "file_id": number} for entry in chunk]
        put(connection, history_snapshots, rows, only=())


def _places() -> Select[Any]:
    of = history_snapshots.join(history_files, history_files.c.file_id == history_snapshots.c.file_id)
    columns = [history_files.c[name] for name in HistoryFile.__dataclass_fields__]
    keys = [history_snapshots.c[name] for name in Key._fields]
    return select(*keys, *columns).select_from(of).order_by(history_files.c.file_id)


def _place(row: RowMapping) -> Place:
    values = dict(row)
    key = Key(*(values.pop(name) for name in Key._fields))
    return Place(key, HistoryFile(**values))


def _known(connection: Connection, keys: Sequence[Key]) -> Iterable[Key]:
    tables: dict[str, set[Key]] = {}
    for key in keys:
        tables.setdefault(key.uuid, set()).add(key)
    columns = [history_snapshots.c[name] for name in Key._fields]
    for uuid, wanted in tables.items():
        for chunk in chunks(sorted({key.snapshot_id for key in wanted}), CHUNK):
            query = select(*columns).where(history_snapshots.c.uuid == uuid, history_snapshots.c.snapshot_id.in_(chunk))
            yield from (key for row in connection.execute(query) if (key := Key(*row)) in wanted)
