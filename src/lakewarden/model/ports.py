"""What the jobs need from the deployment around them, as interfaces with one contract each."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple, Protocol

from lakewarden.model.table import Pointer, TableState
from lakewarden.model.verdict import Kind

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


@dataclass(frozen=True, slots=True)
class Directory:
    """What lies directly in one directory: objects (`key` is the bare name), and names of directories, sorted."""

    files: tuple[Stat, ...]
    directories: tuple[str, ...]


class Files(Protocol):
    """What a format may ask of the stores, by canonical address."""

    def get(self, uri: str) -> bytes:
        """The bytes. FileNotFoundError if absent, StoreUnavailableError for everything else."""
        ...

    def get_many(self, uris: Sequence[str]) -> list[bytes | Exception]:
        """Each address's bytes, or what went wrong with it, in the order asked."""
        ...

    def head(self, uri: str) -> Stat | None: ...

    def entries(self, prefix: str) -> Directory:
        """What lies directly in a directory; empty if it is not there. StoreUnavailableError for everything else."""
        ...

    def create(self, uri: str, data: bytes) -> bool:
        """Write only if absent; False if something is there."""
        ...

    def put(self, uri: str, data: bytes) -> None: ...


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


@dataclass(frozen=True, slots=True)
class FileNames:
    """How a format names its files: regular expressions over the path below the table's directory.

    `written` has what the format writes and may leave behind: nothing else is ever a candidate. `hidden` and `reused`
    are protected although they look written. `foreign` are the marks of other formats, by name, over the whole address.
    """

    written: str
    hidden: str | None
    reused: str | None
    kinds: tuple[tuple[Kind, str], ...]
    foreign: Mapping[str, str]
    directories: str | None = None  # directories that may be removed once they are empty


class Reader(Protocol):
    """How a format's Avro files are read on executors: which columns, and what they mean.

    `by_name`: metadata gives bare file names that are unique in the world (a uuid in each), so files are matched by
    name within everything the table shares a root with, and never by an address that would have to be rebuilt.
    `keeps_deleted`: a deleted entry still names a file that somebody may need.
    """

    format: str
    names: FileNames
    by_name: bool
    keeps_deleted: bool

    def recogniser(
        self, states: Iterable[TableState], since: datetime, abandoned: Collection[str]
    ) -> Callable[..., Json | None]: ...

    def list_columns(self, names: Iterable[str]) -> Mapping[str, str]: ...

    def manifest_columns(self, names: Iterable[str]) -> Mapping[str, str]: ...

    def partition_columns(self, names: Iterable[str]) -> Mapping[str, str]: ...


@dataclass(frozen=True, slots=True)
class JournalFile:
    """One file of a batch, as the plan listed it."""

    uri: str
    size: int
    modified: datetime | None
    etag: str | None
    table: str
    kind: str


class FileOutcome(NamedTuple):
    """What became of one file of a batch. A tuple, because a run makes one for every file."""

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
