"""What the jobs need from the deployment around them, as interfaces with one contract each."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple, Protocol, TypeVar

from lakewarden.model.errors import IncompleteManifestError
from lakewarden.model.margins import MARGINS
from lakewarden.model.table import Pointer, TableState
from lakewarden.model.verdict import Kind

Json = dict[str, Any]
T = TypeVar("T")


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
    """What lies directly in one directory: objects (`key` is the bare name), and names of directories, sorted.

    `odd` has names, escaped so that they can be shown, that cannot be carried or lead elsewhere (links).
    """

    files: tuple[Stat, ...]
    directories: tuple[str, ...]
    odd: tuple[str, ...] = ()


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
        """What lies directly in a directory; empty if it is not there. StoreUnavailableError for everything else, also
        for a directory with an odd name in it."""
        ...

    def places(self, prefix: str) -> Directory:
        """The same, with odd names told apart: for whoever can refuse each of them and go on with the others."""
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

    def pointer(self, identifier: str) -> Pointer | None:
        """One table, asked for alone: a run that asks for all before each of them would ask more with every table.

        None if its catalog holds no table of that name. Raises CatalogUnavailableError.
        """
        ...

    def beside(self, location: str) -> Sequence[str]:
        """Where a table may be that the catalog does not list, newest first, by what lies beside its metadata of before.

        Empty if nothing of it is left; a bounded number. Raises LakewardenError if that cannot be told.
        """
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


class Part(NamedTuple):
    """Rows of some files, as an Arrow table; `owner` (an array) has for each row the place of its file in the request."""

    table: Any
    owner: Any

    def of(self, index: int) -> Part:
        """The rows of one file."""
        places = [place for place, owner in enumerate(self.owner.tolist()) if owner == index]
        return Part(self.table.take(places), self.owner[places])


def each_part(parts: Iterable[Part], errors: dict[int, Exception], change: Callable[[Part], T]) -> list[T]:
    """What `change` makes of each part. A file of whose rows it can make nothing becomes an error, and the others go on.

    Whoever wrote a file chose the kinds of its fields: a length may be a text, an address a number.
    """
    found: list[T] = []
    waiting = list(parts)
    while waiting:
        part = waiting.pop(0)
        try:
            found.append(change(part))
        except (ArithmeticError, AttributeError, LookupError, NotImplementedError, TypeError, ValueError) as error:
            owners = sorted(set(part.owner.tolist()))
            if len(owners) > 1:
                waiting += [part.of(index) for index in owners]
            for index in owners if len(owners) == 1 else ():
                errors[index] = IncompleteManifestError(f"has fields of other kinds ({type(error).__name__}: {error})")
    return found


class Rows(NamedTuple):
    """What files hold: their rows, how many rows each file has (an array), and what is wrong with those not whole.

    A file with an error has no rows here: a part of a file is never given out. Files in `doubts` are whole as far as they
    tell, and may have lost rows at their end all the same (in words, why): only what others counted proves them.
    """

    parts: Sequence[Part]
    counts: Any
    errors: dict[int, Exception]
    doubts: Mapping[int, str] = {}

    def each(self, change: Callable[[Any], Any]) -> Rows:
        """The rows after `change` made another table of each; files of which it can make none are errors."""
        errors = dict(self.errors)
        parts = each_part(self.parts, errors, lambda part: Part(change(part.table), part.owner))
        return Rows(parts, self.counts, errors, self.doubts)


Blobs = Sequence[bytes | Exception]


class ReadAvro(Protocol):
    """The shared reader of Avro files: each one proven whole or refused, within a bounded time."""

    def __call__(self, blobs: Blobs, columns: Callable[[Iterable[str]], Mapping[str, str]]) -> Rows:
        """Columns of many files. `columns` gives, for the dotted fields that a file has, the name of ours for each wanted."""
        ...


class Reader(Protocol):
    """How a format's lists and manifests are read on executors: bytes in, rows of our columns out. It is pickled.

    Whatever the bytes are (Avro, JSON), a file that cannot be proven whole is an error of the Rows, never fewer rows.
    A blob that is an Exception, because the store did not give it out, stays that error.

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

    def manifests(self, blobs: Blobs, avro: ReadAvro) -> Rows:
        """What manifest lists name, a row a manifest.

        `path` (its address, or for `by_name` its bare name), `length` in bytes, `rows` (how many entries it has) and
        `live` (how many of them count), each null where the list does not say, `content` (0 data, 1 deletes). Maybe
        `extra`: lists of names of files that lie beside the manifest and are kept with it.
        """
        ...

    def entries(self, blobs: Blobs, avro: ReadAvro) -> Rows:
        """What manifests name, a row an entry.

        `path` (the file's address, or for `by_name` its bare name), `deleted` (whether the entry takes the file away)
        and `content` (0 data, 1 deletes). Maybe `extra`: lists of names of files that belong to this one. Maybe, for
        `by_name`, `external`: the file's whole address where the entry has one, null elsewhere. Maybe `size` in bytes: a
        listing need not ask the disk for it then.
        """
        ...

    def partitions(self, blobs: Blobs, avro: ReadAvro) -> Rows:
        """What manifests add to partitions, a row for some entries of one partition.

        `partition` (its bytes), `files` (added minus deleted) and what they hold, counted likewise: `rows`, `deletes` (of
        rows, where they are counted one by one) and `bytes`. And when: `created` in milliseconds, or `snapshot`, the id of
        the commit; null where unknown.
        """
        ...


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
    """A writer at work: files under `prefix` that it began since `since` are its own until it stops beating.

    `silent`: it stopped without saying that it was done, and still protects.
    """

    writer: str
    table: str
    prefix: str
    since: datetime
    beat_at: datetime
    ttl_seconds: int
    silent: bool = False

    @property
    def live_until(self) -> datetime:
        return self.beat_at + timedelta(seconds=self.ttl_seconds)

    @property
    def covers_from(self) -> datetime:
        """When the first of its files may be said to be from: the clock of the store may be behind the one that beat."""
        return self.since - MARGINS.clock_skew

    @property
    def told(self) -> str:
        """Why a file of this writer's is kept."""
        return f"writer {self.writer} " + ("fell silent, and may go on" if self.silent else "is at work")


# Called with the step that goes on now, how much of it is done and of how much: (step, 0, 0) where nobody knows. A step
# ends when the next one of the same thread begins; one that is told by a thread of its own, when all of it is done.
Progress = Callable[[str, int, int], None]


def unheard(stage: str, done: int, total: int) -> None:
    """Progress that nobody asked for."""
