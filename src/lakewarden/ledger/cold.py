"""What the cold tier holds: which files have a verified copy there, and which snapshots can be opened there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import func, select

from lakewarden.ledger.connection import Connections, chunks, put
from lakewarden.ledger.schema import cold_files, cold_snapshots

CHUNK = 500


@dataclass(frozen=True, slots=True)
class ColdFile:
    """A file of a table and its verified copy. Metadata and deletes are written anew, so `size` is the copy's.

    `sha256` is the digest of the copy's bytes; where the store copied and vouched for them itself, its own checksum and
    that one's name (`md5:…`).
    """

    uri: str
    cold_uri: str
    uuid: str
    run_id: str
    size: int
    sha256: str
    copied_at: datetime


@dataclass(frozen=True, slots=True)
class ColdSnapshot:
    """A snapshot that can be opened in the cold place: `destination` is its table's directory there."""

    uuid: str
    snapshot_id: int
    table_name: str
    destination: str
    metadata_uri: str
    run_id: str
    handed_at: datetime


class Cold:
    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    def add(self, files: Iterable[ColdFile]) -> None:
        """Enter verified copies, all or none; one that was copied again takes the newer record."""
        with self._connections.write() as connection:
            for chunk in chunks(files, CHUNK):
                put(connection, cold_files, [asdict(file) for file in chunk])

    def copies(self, uris: Iterable[str]) -> Iterator[ColdFile]:
        """Every verified copy of these files: one may lie in several cold places."""
        for chunk in chunks(uris, CHUNK):
            with self._connections.read() as connection:
                rows = connection.execute(select(cold_files).where(cold_files.c.uri.in_(chunk))).mappings().all()
            yield from (ColdFile(**row) for row in rows)

    def count(self, run_id: str, uuids: Iterable[str]) -> int:
        """How many copies of these tables' files a run has made."""
        found = 0
        for chunk in chunks(uuids, CHUNK):
            mine = (cold_files.c.run_id == run_id) & cold_files.c.uuid.in_(chunk)
            with self._connections.read() as connection:
                found += connection.execute(select(func.count()).select_from(cold_files).where(mine)).scalar_one()
        return found

    def of(self, uuid: str, batch: int = 10_000) -> Iterator[list[ColdFile]]:
        """Every copy of a table's files, in lists of at most `batch`."""
        after = ("", "")
        uri, cold = cold_files.c.uri, cold_files.c.cold_uri
        while True:
            later = (uri > after[0]) | ((uri == after[0]) & (cold > after[1]))
            query = select(cold_files).where(cold_files.c.uuid == uuid, later).order_by(uri, cold).limit(batch)
            with self._connections.read() as connection:
                rows = connection.execute(query).mappings().all()
            if not rows:
                return
            yield [ColdFile(**row) for row in rows]
            after = (rows[-1]["uri"], rows[-1]["cold_uri"])

    def add_snapshots(self, snapshots: Iterable[ColdSnapshot]) -> None:
        """Enter snapshots, all or none."""
        with self._connections.write() as connection:
            put(connection, cold_snapshots, [asdict(snapshot) for snapshot in snapshots])

    def snapshots(self, uuid: str) -> list[ColdSnapshot]:
        """A table's snapshots in the cold tier, in the order in which they came."""
        return self._snapshots(cold_snapshots.c.uuid == uuid)

    def find(self, snapshot_id: int) -> list[ColdSnapshot]:
        """The snapshots of that id: one, unless a table was cloned with its history."""
        return self._snapshots(cold_snapshots.c.snapshot_id == snapshot_id)

    def newest(self, limit: int) -> list[ColdSnapshot]:
        """The snapshots that were handed over last, the last one first."""
        query = select(cold_snapshots).order_by(cold_snapshots.c.handed_at.desc(), cold_snapshots.c.snapshot_id)
        with self._connections.read() as connection:
            rows = connection.execute(query.limit(limit)).mappings().all()
        return [ColdSnapshot(**row) for row in rows]

    def _snapshots(self, wanted: Any) -> list[ColdSnapshot]:
        columns = cold_snapshots.c
        query = select(cold_snapshots).where(wanted).order_by(columns.handed_at, columns.run_id, columns.snapshot_id)
        with self._connections.read() as connection:
            rows = connection.execute(query).mappings().all()
        return [ColdSnapshot(**row) for row in rows]
