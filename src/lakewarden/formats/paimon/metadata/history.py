"""The snapshots of a Paimon table as the archive keeps them: of every branch, tag and changelog."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from lakewarden.foreign.json_text import integer_or_none
from lakewarden.formats.paimon.metadata.known import KnownTables
from lakewarden.formats.paimon.metadata.table import MAIN, PaimonTable, Snapshot
from lakewarden.model import lineage as keys
from lakewarden.model.errors import UnreadableMetadataError
from lakewarden.model.history import HeldBy, MetadataSize, SnapshotRow, digest_of, summary_of
from lakewarden.model.ports import Files, ReadAvro
from lakewarden.model.table import TableState

# What every copy of a snapshot has, and no other snapshot: a tag's file says more, and a tag or changelog that an older
# version of Paimon made leaves out what that version does not know.
FOR_LIFE = (
    "id", "schemaId", "baseManifestList", "deltaManifestList", "commitUser", "commitIdentifier", "commitKind", "timeMillis",
)  # fmt: skip
# What a tag's file has beyond the snapshot that it is a copy of.
OF_TAGS = frozenset({"tagCreateTime", "tagTimeRetained"})


class PaimonHistorian:
    """History on the files of a table. Takes what planning has read already."""

    def __init__(self, known: KnownTables) -> None:
        self._known = known

    def rows(self, state: TableState) -> Sequence[SnapshotRow]:
        return snapshot_rows(self._known.at(state.metadata_location))

    def size(self, state: TableState) -> MetadataSize:
        return _size_of(self._known.at(state.metadata_location))

    def read_anew(self, metadata_location: str) -> MetadataSize:
        """Finding the pointer listed its files; those that are the same are not read again."""
        return _size_of(self._known.at(metadata_location))

    def added_in(self, state: TableState, uri: str, held: Sequence[HeldBy], files: Files, avro: ReadAvro) -> int | None:
        """The first snapshot that needs the file, if only its own changes name it: what was there before is in its base too."""
        table = self._known.at(state.metadata_location)
        first = min(way.snapshot_id for way in held)
        lists = {way.list_uri for way in held if way.snapshot_id == first}
        several = (s for branch in table.branches for s in (*branch.snapshots, *(tag.snapshot for tag in branch.tags)))
        for snapshot in (s for s in several if s.id == first):
            changed = {table.manifest(name) for name in (snapshot.delta, snapshot.changelog) if name}
            if lists and lists <= changed:
                return first
        return None

    def trim(self, identifier: str, uuid: str, keep: int, by: Mapping[str, str]) -> MetadataSize | None:
        return None


def _size_of(table: PaimonTable) -> MetadataSize:
    """The newest snapshot's file, which is what a reader opens. The format has no log of older ones."""
    latest = table.main.latest
    return MetadataSize(len(latest.raw) if latest else 0, 0)


def snapshot_rows(table: PaimonTable) -> list[SnapshotRow]:
    """Each commit once, however many branches, tags and changelogs have a copy of its file."""
    found: dict[str, Snapshot] = {}
    refs: dict[str, set[str]] = {}
    for name, snapshot in _named(table):
        digest = snapshot_digest(snapshot)
        found.setdefault(digest, snapshot)
        if name:
            refs.setdefault(digest, set()).add(name)
    try:
        rows = [_row(table, one, digest, sorted(refs.get(digest, ()))) for digest, one in found.items()]
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise UnreadableMetadataError(
            f"a snapshot file of {table.location} garbles a field ({type(error).__name__}: {error}); "
            "nothing was archived"
        ) from error
    return sorted(rows, key=lambda row: (row.committed_ms, row.snapshot_id, row.digest))


def snapshot_digest(snapshot: Snapshot) -> str:
    document = snapshot.document
    return digest_of({key: document[key] for key in FOR_LIFE if document.get(key) is not None})[1]


def _named(table: PaimonTable) -> Iterator[tuple[str, Snapshot]]:
    """Every snapshot file, with the ref that points at it if it is the newest of its branch, or a tag's."""
    for branch in table.branches:
        prefix = "" if branch.name == MAIN else f"{branch.name}/"
        yield from ((f"branch {branch.name}" if s is branch.latest else "", s) for s in branch.snapshots)
        yield from ((f"tag {prefix}{tag.name}", tag.snapshot) for tag in branch.tags)
        yield from (("", changelog) for changelog in branch.changelogs)


def _row(table: PaimonTable, snapshot: Snapshot, digest: str, refs: Sequence[str]) -> SnapshotRow:
    document = snapshot.document
    text, _ = digest_of({key: value for key, value in document.items() if key not in OF_TAGS})
    operation = snapshot.commit_kind.lower()
    own = {"commit.user": snapshot.commit_user, "commit.identifier": str(snapshot.commit_identifier)}
    summary = {keys.OPERATION: operation, **own, **summary_of(document.get("properties"))}
    return SnapshotRow(
        snapshot_id=snapshot.id,
        parent_id=snapshot.id - 1 if snapshot.id > 1 else None,
        sequence=snapshot.id,
        committed_ms=snapshot.time_ms,
        operation=operation,
        summary=summary,
        refs=tuple(refs),
        schema_id=snapshot.schema_id,
        manifest_list=table.manifest(snapshot.delta) if snapshot.delta else "",
        document=text,
        digest=digest,
        added_rows=integer_or_none(document.get("deltaRecordCount")),
    )
