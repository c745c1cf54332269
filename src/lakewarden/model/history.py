"""What the archive keeps of a snapshot: one row, in the table's own words, that outlives the snapshot."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from lakewarden.model import lineage as keys
from lakewarden.model.ports import Files, ReadAvro
from lakewarden.model.table import TableState

NOT_YET = "a snapshot that history has not archived yet"
# One input: a snapshot's id, or `table@id`, with or without quotes around it.
_INPUT = re.compile(r"(?:(?P<table>.*)@\s*)?(?P<id>-?[0-9]{1,19})", re.DOTALL)
_AROUND = " \t\r\n\"'"


class Input(NamedTuple):
    """A snapshot that a commit was made from; `table` is a name or a uuid, and empty where the commit does not say."""

    table: str
    snapshot_id: int


@dataclass(frozen=True, slots=True)
class SnapshotRow:
    """One snapshot as its table has it. `digest` is of everything that never changes of it, and tells it from any other.

    A Paimon table that was rolled back commits `snapshot-5` a second time: the id comes again, the digest does not.
    `refs` are the branches and tags that point at it now, and no part of the digest. `operation` is the format's word.
    """

    snapshot_id: int
    parent_id: int | None
    sequence: int | None
    committed_ms: int
    operation: str
    summary: Mapping[str, str]
    refs: tuple[str, ...]
    schema_id: int | None
    manifest_list: str
    document: str
    digest: str
    added_rows: int | None = None
    added_bytes: int | None = None

    @property
    def inputs(self) -> tuple[Input, ...]:
        # A summary may name one of them a million times.
        return tuple(dict.fromkeys(inputs_of(self.summary.get(keys.INPUTS, ""))))


class HeldBy(NamedTuple):
    """A way in which a snapshot needs a file: through its list, and a manifest of that unless the file is the list itself."""

    snapshot_id: int
    list_uri: str
    manifest: str | None


@dataclass(frozen=True, slots=True)
class Archived:
    """Which snapshots of a table the archive holds, by digest, and why those of damaged files do not count."""

    digests: frozenset[str]
    damaged: Mapping[str, str] = field(default_factory=dict)

    def why_not(self, digest: str) -> str | None:
        """What a snapshot that is not safely in the archive is called; None of one that is."""
        return None if digest in self.digests else self.damaged.get(digest, NOT_YET)


@dataclass(frozen=True, slots=True)
class HistoryPolicy:
    """What history does with one table. `previous_versions_max`: how many old metadata files it may name; None: as it is."""

    enabled: bool
    dry_run: bool
    required: bool
    previous_versions_max: int | None

    @staticmethod
    def of(values: Mapping[str, Any]) -> HistoryPolicy:
        """The policy that these values of `[history]` spell."""
        return HistoryPolicy(
            values["enabled"], values["dry_run"], values["required"], values["metadata_previous_versions_max"]
        )

    @property
    def is_floor(self) -> bool:
        """Whether expiry keeps what is not archived."""
        return self.enabled or self.required

    def as_values(self) -> dict[str, Any]:
        """The policy under the user's names, as a plan records it."""
        return {
            "dry_run": self.dry_run,
            "required": self.required,
            "metadata_previous_versions_max": self.previous_versions_max,
        }


@dataclass(frozen=True, slots=True)
class MetadataSize:
    """How large the metadata is that every reader of a table opens first, and how many older files it names."""

    bytes: int
    logged: int


class Historian(Protocol):
    """How a format tells the snapshots of a table, and trims what its specification lets it trim."""

    def rows(self, state: TableState) -> Sequence[SnapshotRow]:
        """Every snapshot that any branch, tag or changelog of the table has, once. Raises UnreadableMetadataError."""
        ...

    def size(self, state: TableState) -> MetadataSize:
        """How large the metadata is that the table was loaded from."""
        ...

    def read_anew(self, metadata_location: str) -> MetadataSize:
        """Read that metadata past everything that is remembered, as whoever opens the table does. Raises UnreadableMetadataError."""
        ...

    def added_in(self, state: TableState, uri: str, held: Sequence[HeldBy], files: Files, avro: ReadAvro) -> int | None:
        """The id of the commit that added a file which the table needs in these ways; None where its metadata does not tell."""
        ...

    def trim(self, identifier: str, uuid: str, keep: int, by: Mapping[str, str]) -> MetadataSize | None:
        """Let the table name no more than so many old metadata files, from now on; None if it names no more already.

        One commit, made only if the table is still the one of that uuid. Raises CommitConflictError.
        """
        ...


def digest_of(document: Mapping[str, Any]) -> tuple[str, str]:
    """A snapshot's document as text of one spelling, and that text's SHA-256."""
    text = json.dumps(document, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return text, hashlib.sha256(text.encode()).hexdigest()


def inputs_of(text: str) -> Iterator[Input]:
    """What `input.snapshot_ids` names: `4727,4728`, `[4727, 4728]` or `lake.db.raw@4727`. What is no input is left out.

    A table's name may hold a comma: what stands before one and is no input begins the name that the next input has.
    Every character is looked at a few times at most: anybody may write anything into a summary.
    """
    text = text.strip().removeprefix("[").removesuffix("]")
    begins = at = 0
    for piece in text.split(","):
        found = _INPUT.fullmatch(piece.strip(_AROUND))
        end = at + len(piece)
        if found is not None:
            number = int(found["id"])
            if -(2**63) <= number < 2**63:
                named = found["table"] is not None
                yield Input(text[begins:end].rpartition("@")[0].strip(_AROUND) if named else "", number)
            begins = end + 1
        at = end + 1


def summary_of(raw: object) -> dict[str, str]:
    """A summary as text by text; what is no text in it is told as JSON. A key without a value says nothing."""
    if not isinstance(raw, Mapping):
        return {}
    said = {str(k): v for k, v in raw.items() if v is not None}
    return {k: v if isinstance(v, str) else json.dumps(v, sort_keys=True) for k, v in said.items()}
