"""What the tests of DropPartition share: partitions as bytes, calls of the drop, and stores that misbehave."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import fastavro
from pypaimon.table.row.generic_row import GenericRow, GenericRowSerializer

from lakewarden.formats.paimon.commit.commit import Committed
from lakewarden.formats.paimon.partitions.drop import Dropped, drop_partitions
from lakewarden.model.errors import StoreUnavailableError
from lakewarden.storage.stores import Stores
from tests.formats.paimon.reading import open_table


def partition(location: Path, *values: Any) -> bytes:
    """The bytes of a partition, as pypaimon writes them into a manifest."""
    fields = open_table(location).partition_keys_fields
    made: bytes = GenericRowSerializer.to_bytes(GenericRow(list(values), fields))
    return made


def drop(location: Path, *partitions: tuple[Any, ...] | bytes, **how: Any) -> Committed | None:
    """Drop these partitions, given as values or as bytes, whatever they hold."""
    found = drop_expected(location, *partitions, **how)
    assert not found.kept
    return found.commit


def drop_expected(
    location: Path,
    *partitions: tuple[Any, ...] | bytes,
    user: str = "worker-1",
    identifier: int = 1,
    files: Any = None,
    sleep: Callable[[float], None] = lambda _: None,
    properties: Mapping[str, str] | None = None,
    **how: Any,
) -> Dropped:
    """Drop those of these partitions that hold what is expected."""
    wanted = [one if isinstance(one, bytes) else partition(location, *one) for one in partitions]
    now = int(time.time() * 1000)
    found = files or Stores()
    uri = f"file://{location}/"
    return drop_partitions(uri, found, wanted, user, identifier, now, sleep, properties=properties, **how)


def snapshots(location: Path) -> list[dict[str, Any]]:
    """Every snapshot file, oldest first."""
    paths = sorted(location.glob("snapshot/snapshot-*"), key=lambda path: int(path.name.partition("-")[2]))
    return [json.loads(path.read_text()) for path in paths]


def records(location: Path, name: str) -> list[dict[str, Any]]:
    """The records of a manifest list, manifest or index manifest."""
    with (location / "manifest" / name).open("rb") as file:
        return [dict(record) for record in fastavro.reader(file)]  # type: ignore[arg-type]


def rewrite(location: Path, name: str, change: Callable[[list[dict[str, Any]]], Iterable[dict[str, Any]]]) -> None:
    """Replace a manifest's records in place; lists then no longer agree with it, unless the test sees to that."""
    path = location / "manifest" / name
    with path.open("rb") as file:
        reader = fastavro.reader(file)
        found: list[Any] = list(reader)
    with path.open("wb") as file:
        fastavro.writer(file, reader.writer_schema, change(found), codec=str(reader.codec))  # type: ignore[arg-type]


class Interfering(Stores):
    """Stores where something happens around the creation of a snapshot file: `before` and `after` get its path."""

    def __init__(
        self, before: Callable[[Path], None] | None = None, after: Callable[[Path], None] | None = None
    ) -> None:
        super().__init__()
        self._before = before
        self._after = after

    def create(self, uri: str, data: bytes) -> bool:
        path = Path(uri.removeprefix("file://"))
        if self._before is not None:
            self._before(path)
        made = super().create(uri, data)
        if self._after is not None:
            self._after(path)
        return made


class Deaf(Stores):
    """Stores that do not answer about a snapshot's creation: `written` says whether it took place."""

    def __init__(self, written: bool, times: int = 1, blind: bool = False) -> None:
        super().__init__()
        self._written = written
        self._times = times
        self._blind = blind
        self.deaf = 0

    def create(self, uri: str, data: bytes) -> bool:
        if self.deaf >= self._times:
            return super().create(uri, data)
        self.deaf += 1
        if self._written:
            super().create(uri, data)
        raise StoreUnavailableError(f"no answer about {uri}")

    def get(self, uri: str) -> bytes:
        if self._blind and self.deaf:
            raise StoreUnavailableError(f"no answer about {uri}")
        return super().get(uri)
