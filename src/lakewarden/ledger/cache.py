"""The index of the cache of proven manifests: which files hold them, how long they are, and their digests."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import delete, select, update

from lakewarden.ledger.connection import Connections, chunks, put
from lakewarden.ledger.schema import cache_files
from lakewarden.model.kept_file import KeptFile

CHUNK = 1000


class Cache:
    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    def add(self, files: Iterable[KeptFile]) -> None:
        """Enter written files, all or none."""
        now = self._connections.clock.now()
        names = KeptFile.__dataclass_fields__
        rows = [{name: getattr(file, name) for name in names} | {"added_at": now} for file in files]
        with self._connections.write() as connection:
            put(connection, cache_files, rows)

    def use(self, uris: Iterable[str]) -> None:
        """Note that something was taken from these files: they stay for longer."""
        now = self._connections.clock.now()
        if chosen := list(uris):
            with self._connections.write() as connection:
                for chunk in chunks(chosen, CHUNK):
                    connection.execute(update(cache_files).where(cache_files.c.uri.in_(chunk)).values(added_at=now))

    def files(self) -> list[KeptFile]:
        """Every file, the last used first. A new one counts as used; of those that one plan used, the largest is first."""
        columns = [cache_files.c[name] for name in KeptFile.__dataclass_fields__]
        query = select(*columns).order_by(cache_files.c.added_at.desc(), cache_files.c.bytes.desc(), cache_files.c.uri)
        with self._connections.read() as connection:
            return [KeptFile(**row._mapping) for row in connection.execute(query)]

    def forget(self, uris: Iterable[str]) -> None:
        """Strike files out of the index; nobody reads them afterwards."""
        with self._connections.write() as connection:
            for chunk in chunks(uris, CHUNK):
                connection.execute(delete(cache_files).where(cache_files.c.uri.in_(chunk)))
