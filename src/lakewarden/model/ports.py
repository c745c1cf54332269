"""What the jobs need from the rooms around them, as interfaces with one contract each."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from lakewarden.model.table import Pointer, TableState

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Stat:
    """What a store says of one object. `etag` identifies the bytes, as far as the store can."""

    key: str
    size: int
    modified: datetime | None
    etag: str | None


@dataclass(frozen=True, slots=True)
class Shard:
    """A part of one root that one task lists: a directory, or a key range of a flat one.

    `prefix` is a canonical address ending in a slash. `direct` lists only the objects directly in it.
    `after` (exclusive) and `until` (inclusive) bound the keys, as stored; None is open.
    """

    root_id: int
    prefix: str
    direct: bool = False
    after: str | None = None
    until: str | None = None


class Catalog(Protocol):
    """One configured catalog of one format: who its tables are, and what each is now."""

    name: str
    format: str

    def pointers(self) -> Sequence[Pointer]:
        """Every table and where its metadata is now, read fresh. Raises CatalogUnavailableError."""
        ...

    def load(self, pointer: Pointer, cutoff: datetime) -> TableState:
        """The table at that pointer. What cannot be understood comes back refused, never raised."""
        ...


class Reader(Protocol):
    """How a format's Avro files are read on executors: which columns, and what they mean."""

    format: str

    def recogniser(
        self, states: Iterable[TableState], since: datetime, abandoned: Collection[str]
    ) -> Callable[..., Json | None]: ...

    def list_columns(self, names: Iterable[str]) -> Mapping[str, str]: ...

    def manifest_columns(self, names: Iterable[str]) -> Mapping[str, str]: ...


@dataclass(frozen=True, slots=True)
class JournalFile:
    """One file of a batch, as the plan listed it."""

    uri: str
    size: int
    modified: datetime | None
    etag: str | None
    table: str
    kind: str


@dataclass(frozen=True, slots=True)
class FileOutcome:
    """What became of one file of a batch."""

    uri: str
    outcome: str
    code: str | None = None
    message: str | None = None


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """A writer at work: files under `prefix` that it began since `since` are its own until it stops beating."""

    writer: str
    table: str
    prefix: str
    since: datetime
    beat_at: datetime
    ttl_seconds: int


Progress = Callable[[str, int, int], None]
