"""What a Paimon table is: branches, each with snapshots, tags, changelogs and consumers, over one pool of files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lakewarden.foreign.json_text import instant_ms, integer, integer_or_none, read_object
from lakewarden.model.errors import UnreadableMetadataError

MAIN = "main"
# Of one snapshot, schema, tag or consumer file. A schema of ten thousand columns has about a megabyte.
MOST_BYTES, MOST_VALUES = 16 << 20, 1_000_000


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One commit: the state before it (`base`), its own changes (`delta`), and what it adds for changelog readers."""

    id: int
    schema_id: int
    base: str | None
    delta: str | None
    changelog: str | None
    base_size: int | None
    delta_size: int | None
    changelog_size: int | None
    index_manifest: str | None
    statistics: str | None
    commit_user: str
    commit_identifier: int
    commit_kind: str
    time_ms: int
    raw: bytes
    version: object = None  # as the file says it, whatever that is

    @staticmethod
    def parse(data: bytes, uri: str) -> Snapshot:
        """A snapshot, tag or changelog file. Raises UnreadableMetadataError for anything else; unknown fields are no error."""
        document = parse_json(data, uri)
        try:
            return Snapshot(
                id=integer(document["id"]),
                schema_id=integer(document["schemaId"]),
                # Without one of them the commit would seem to need fewer files than it does.
                base=_name(document["baseManifestList"]),
                delta=_name(document["deltaManifestList"]),
                changelog=_text(document.get("changelogManifestList")),
                base_size=integer_or_none(document.get("baseManifestListSize")),
                delta_size=integer_or_none(document.get("deltaManifestListSize")),
                changelog_size=integer_or_none(document.get("changelogManifestListSize")),
                index_manifest=_text(document.get("indexManifest")),
                statistics=_text(document.get("statistics")),
                commit_user=str(document["commitUser"]),
                commit_identifier=integer(document["commitIdentifier"]),
                commit_kind=str(document["commitKind"]),
                time_ms=instant_ms(document["timeMillis"]),
                raw=data,
                version=document.get("version"),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise UnreadableMetadataError(f"{uri} is not a snapshot file ({type(error).__name__}: {error})") from error

    def length_of(self, name: str) -> int | None:
        """The size of one of its lists, where it says."""
        # Of a name that is there twice, the last size counts.
        if name == self.changelog:
            return self.changelog_size
        if name == self.delta:
            return self.delta_size
        return self.base_size if name == self.base else None

    @property
    def document(self) -> dict[str, Any]:
        """Everything the file says, also what this version does not know."""
        return parse_json(self.raw, f"snapshot {self.id}")


@dataclass(frozen=True, slots=True)
class Tag:
    """A name for a snapshot that outlives it; the file is a copy of the snapshot's."""

    name: str
    snapshot: Snapshot


@dataclass(frozen=True, slots=True)
class Schema:
    """One version of a table's schema, with the options that were in effect."""

    id: int
    fields: tuple[Mapping[str, Any], ...]
    partition_keys: tuple[str, ...]
    primary_keys: tuple[str, ...]
    options: Mapping[str, str]
    time_ms: int = 0

    @staticmethod
    def parse(data: bytes, uri: str) -> Schema:
        """A schema file. Raises UnreadableMetadataError for anything else; unknown fields are no error."""
        document = parse_json(data, uri)
        try:
            return Schema(
                id=integer(document["id"]),
                fields=tuple(
                    {**field, "name": _name(field["name"]), "type": field["type"]} for field in document["fields"]
                ),
                partition_keys=tuple(str(key) for key in document.get("partitionKeys") or ()),
                primary_keys=tuple(str(key) for key in document.get("primaryKeys") or ()),
                options={str(key): str(value) for key, value in (document.get("options") or {}).items()},
                time_ms=instant_ms(document.get("timeMillis") or 0),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise UnreadableMetadataError(f"{uri} is not a schema file ({type(error).__name__}: {error})") from error


@dataclass(frozen=True, slots=True)
class Branch:
    """One line of history. `directory` is the address, ending in a slash, that holds its snapshot/, tag/, schema/ and so on.

    `earlier` has the schemas before the one in effect, oldest first: files of their time may still be needed.
    """

    name: str
    directory: str
    schema: Schema
    snapshots: tuple[Snapshot, ...] = ()
    tags: tuple[Tag, ...] = ()
    changelogs: tuple[Snapshot, ...] = ()
    consumers: Mapping[str, int] = field(default_factory=dict)
    earliest_hint: int | None = None
    latest_hint: int | None = None
    earlier: tuple[Schema, ...] = ()

    @property
    def produces_changelog(self) -> bool:
        """Whether commits write changelog files of their own; else a changelog is the delta itself."""
        return self.schema.options.get("changelog-producer", "none").strip().lower() != "none"

    @property
    def latest(self) -> Snapshot | None:
        return self.snapshots[-1] if self.snapshots else None


@dataclass(frozen=True, slots=True)
class PaimonTable:
    """One table as one moment shows it: the main branch first. `location` is its address, ending in a slash.

    `fingerprint` changes when any snapshot, tag, branch, changelog, consumer or schema file is added, removed or replaced.
    `first_schema` is main's oldest schema file: it tells a table from one that was created later in the same place.
    `gone` has changelog lists that first snapshots name although the format has removed them. `written` is a file that
    only a commit writes, of a table whose main branch has no snapshot.
    """

    location: str
    branches: tuple[Branch, ...]
    fingerprint: str
    first_schema: bytes = b""
    gone: frozenset[str] = frozenset()
    written: str | None = None

    @property
    def main(self) -> Branch:
        return self.branches[0]

    def manifest(self, name: str) -> str:
        """The address of a manifest list, manifest or index manifest: one directory for every branch."""
        return f"{self.location}manifest/{name}"


def parse_json(data: bytes, uri: str) -> dict[str, Any]:
    """A JSON object. Raises UnreadableMetadataError, or BoundsError for one that is too large; both name the file."""
    return read_object(data, uri, most_bytes=MOST_BYTES, most_values=MOST_VALUES)


def _name(value: object) -> str:
    if isinstance(value, str):
        return value
    raise TypeError(f"{value!r} is not a name")


def _text(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    raise TypeError(f"{value!r} is not text")
