"""The index of manifest-cache files: which Parquet files hold verified manifest contents, and their digests."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from sqlalchemy import Connection, delete, select

from lakewarden.ledger.connection import Connections, chunks, put
from lakewarden.ledger.schema import cache_files

CHUNK = 1000
CacheKind = Literal["list", "manifest", "reach"]


@dataclass(frozen=True, slots=True)
class CacheFile:
    """One file of the cache: contents of manifest lists, or of manifests."""

    kind: CacheKind
    uri: str
    sha256: str
    rows: int
    bytes: int


class Cache:
    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    def add(self, kind: CacheKind, uri: str, sha256: str, rows: int, bytes: int) -> None:
        """Enter one written file."""
        with self._connections.write() as connection:
            self._put(connection, CacheFile(kind, uri, sha256, rows, bytes))

    def files(self, kind: CacheKind) -> list[CacheFile]:
        """The files of a kind, oldest first."""
        columns = [cache_files.c[name] for name in CacheFile.__dataclass_fields__]
        query = select(*columns).where(cache_files.c.kind == kind).order_by(cache_files.c.added_at, cache_files.c.uri)
        with self._connections.read() as connection:
            return [CacheFile(**row._mapping) for row in connection.execute(query)]

    def replace(self, kind: CacheKind, old_uris: Iterable[str], new_entry: CacheFile | None) -> bool:
        """Exchange several files for one (or for none) at once.

        False, and nothing changed, when one of the old files is gone: somebody else exchanged it meanwhile.
        """
        old = list(dict.fromkeys(old_uris))
        removed = 0
        with self._connections.write() as connection:
            for chunk in chunks(old, CHUNK):
                gone = delete(cache_files).where(cache_files.c.kind == kind, cache_files.c.uri.in_(chunk))
                removed += connection.execute(gone).rowcount
            if removed != len(old):
                connection.rollback()
                return False
            if new_entry is not None:
                self._put(connection, new_entry)
        return True

    def _put(self, connection: Connection, file: CacheFile) -> None:
        row = {name: getattr(file, name) for name in CacheFile.__dataclass_fields__}
        put(connection, cache_files, [row | {"added_at": self._connections.clock.now()}])
