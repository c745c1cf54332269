"""What a table is to the worker: where its metadata points, where its files may lie, what it reaches."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from lakewarden.model.errors import Refusal
from lakewarden.model.verdict import Kind

# A part of a name as it is, or in backticks: then it holds a dot, or backticks, each of which is written twice.
_PART = re.compile(r"`((?:[^`]|``)*)`(?=\.|$)|([^.]*)")


def identifier_of(catalog: str, parts: Iterable[str]) -> str:
    """What a table is called everywhere: `catalog.namespace….table`, as text that no other table has.

    A part with a dot is written in backticks, because the table `b.c` in the namespace `a` (lake.a.`b.c`) and the table
    `c` in the namespace `a.b` (lake.a.b.c) are two tables. A part without one is written as it is.
    """
    return ".".join(map(_quoted, (catalog, *parts)))


def parts_of(name: str) -> tuple[str, ...]:
    """The parts that a name was joined from: the inverse of `identifier_of`."""
    parts: list[str] = []
    at = 0
    while at <= len(name):
        found = _PART.match(name, at)
        assert found is not None  # the second way matches whatever there is, if only nothing
        parts.append(found[2] if found[1] is None else found[1].replace("``", "`"))
        at = found.end() + 1
    return tuple(parts)


_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


def catalog_of(identifier: str) -> str:
    """The catalog of `catalog.namespace….table`."""
    return parts_of(identifier)[0]


def name_within(identifier: str) -> str:
    """What its catalog calls a table, as text: `namespace….table`. Its `parts_of` are what a catalog is asked for."""
    return ".".join(map(_quoted, parts_of(identifier)[1:]))


def _quoted(part: str) -> str:
    return "`" + part.replace("`", "``") + "`" if "." in part or "`" in part else part


@dataclass(frozen=True, slots=True)
class Pointer:
    """The catalog's word on one table: its name and where its current metadata is.

    `witness` is a file that is there as long as the table is, where the metadata is no single file.
    """

    identifier: str
    metadata_location: str
    witness: str | None = None


@dataclass(frozen=True, slots=True)
class Ref:
    """A named branch or tag."""

    name: str
    snapshot_id: int
    kind: str


@dataclass(frozen=True, slots=True)
class ReachedFile:
    """A file that metadata names directly: no manifest has to be opened to know it is needed.

    `soft` ones belong to states that are no longer current: they are kept while they are there, and may be gone.
    """

    uri: str
    kind: Kind
    soft: bool = False


@dataclass(frozen=True, slots=True)
class ManifestList:
    """One snapshot's list of manifests, and how many files its summary says it must hold.

    `soft` lists belong to states that are no longer current: they protect what they reach while they
    are there, and a list that is gone protects nothing. `length` is its size in bytes where metadata says it, and
    `files_bytes` that of the files in it.
    """

    uri: str
    soft: bool = False
    data_files: int | None = None
    delete_files: int | None = None
    snapshot_id: int | None = None
    parent_id: int | None = None
    length: int | None = None
    files_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class NamedManifest:
    """A manifest that metadata names directly, without a list; only its own frames prove it whole."""

    uri: str
    kind: Kind
    soft: bool = False


class Hold(StrEnum):
    """Which files a holder keeps, of those its manifests name."""

    ALL = "all"  # every entry that the format counts
    ADDED = "added"  # added entries: what changelogs hold
    NET = "net"  # entries added more often than deleted: what one snapshot shows


@dataclass(frozen=True, slots=True)
class Holder:
    """Something that needs files: a snapshot, a tag, a run of commits. What no holder needs may be released."""

    hold: Hold
    manifest_lists: tuple[ManifestList, ...] = ()
    manifests: tuple[NamedManifest, ...] = ()
    files: tuple[ReachedFile, ...] = ()


@dataclass(frozen=True, slots=True)
class LoggedMetadata:
    """An earlier metadata file and the instants between which it was the current one (epoch ms)."""

    uri: str
    current_from_ms: int
    current_until_ms: int


@dataclass(frozen=True, slots=True)
class Commit:
    """When a snapshot was made, and how many bytes it added; None where the snapshot does not say."""

    at_ms: int
    added_bytes: int | None
    snapshot_id: int | None = None


@dataclass(frozen=True, slots=True)
class TableState:
    """One table at one metadata file: everything small that planning needs to know of it."""

    identifier: str
    format: str
    uuid: str
    metadata_location: str
    location: str
    roots: tuple[str, ...]
    format_version: int = 0
    current_snapshot_id: int | None = None
    refs: tuple[Ref, ...] = ()
    files: tuple[ReachedFile, ...] = ()
    manifest_lists: tuple[ManifestList, ...] = ()
    manifests: tuple[NamedManifest, ...] = ()
    holders: tuple[Holder, ...] = ()
    history: tuple[LoggedMetadata, ...] = ()
    snapshot_ids: frozenset[int] = frozenset()
    updated_ms: int = 0
    commits: tuple[Commit, ...] = ()  # what was added and when, where snapshots say it
    writer_prefixes: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    refusal: Refusal | None = None
    digest: str = ""  # of the metadata file's bytes (SHA-256), where the metadata is one file whose name may come again

    @property
    def held(self) -> tuple[Holder, ...]:
        """Who needs files of this table, exactly. Orphan cleanup asks for more: whatever any manifest still names."""
        return self.holders or (Holder(Hold.ALL, self.manifest_lists, self.manifests, self.files),)

    @property
    def may_be_replaced(self) -> bool:
        """Whether other metadata may come under the same name, as `v3.metadata.json` does and a name with a uuid does not."""
        return bool(self.digest) and not _UUID.search(self.metadata_location.rpartition("/")[2])

    @property
    def is_visible(self) -> bool:
        """Whether what the table needs is known: a table that is left alone for another reason is read all the same."""
        return self.refusal is None or bool(self.files)

    def refused(self, refusal: Refusal) -> TableState:
        """This table, left alone for a reason."""
        return replace(self, refusal=refusal)
