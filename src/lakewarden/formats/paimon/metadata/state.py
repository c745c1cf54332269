"""What a Paimon table needs and where its files may lie, from its metadata: every branch, snapshot, tag and changelog."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import replace
from uuid import UUID, uuid5

from lakewarden.formats.paimon.metadata.holders import holders
from lakewarden.formats.paimon.metadata.support import check_readable, check_supported, data_directory, external_paths
from lakewarden.formats.paimon.metadata.table import MAIN, PaimonTable, Snapshot
from lakewarden.model.errors import LakewardenError
from lakewarden.model.table import Commit, ManifestList, NamedManifest, ReachedFile, Ref, TableState
from lakewarden.model.uri import FileUri
from lakewarden.model.verdict import Kind

_TABLES = UUID("6d5a3c52-58c5-5d4f-9e57-0a7d8a4f9b61")  # the name space of tables that have no uuid of their own


def table_state(identifier: str, table: PaimonTable, uuid: str) -> TableState:
    """The table as planning needs it; refused (not raised) where it is not understood.

    A refused table still says what it reaches: it may hold files in other tables' directories, and those must stay.
    """
    state = replace(unread(identifier, table.location, table.fingerprint), uuid=uuid)
    try:
        check_readable(table)
    except LakewardenError as error:
        return state.refused(error.refusal())
    filled = _filled(state, table)
    try:
        check_supported(identifier, table)
    except LakewardenError as error:
        return filled.refused(error.refusal())
    return filled


def unread(identifier: str, location: str, fingerprint: str) -> TableState:
    """What is known of a table before its metadata is read: where it lies."""
    return TableState(
        identifier=identifier, format="paimon", uuid="", metadata_location=f"{location}#{fingerprint}",
        location=location, roots=(location,),
    )  # fmt: skip


def table_uuid(table: PaimonTable) -> str:
    """A name for this very table: one that is dropped and created again in the same place has another.

    The format gives tables no uuid. The oldest schema file, which nothing ever rewrites, holds the moment of creation.
    """
    return str(uuid5(_TABLES, f"{table.location}\n{hashlib.sha256(table.first_schema).hexdigest()}"))


def _filled(state: TableState, table: PaimonTable) -> TableState:
    lists = tuple(_lists(table))
    manifests = tuple(_index_manifests(table))
    latest = table.main.latest
    return replace(
        state,
        roots=tuple(_roots(table)),
        format_version=max((_version(s) for b in table.branches if (s := b.latest)), default=0),
        current_snapshot_id=latest.id if latest else None,
        refs=tuple(_refs(table)),
        files=(
            *(ReachedFile(item.uri, Kind.MANIFEST_LIST) for item in lists if not item.soft),
            *(ReachedFile(item.uri, Kind.MANIFEST) for item in manifests if not item.soft),
            *(ReachedFile(uri, Kind.STATISTICS) for uri in _statistics(table)),
        ),
        manifest_lists=lists,
        manifests=manifests,
        holders=holders(table),
        snapshot_ids=frozenset(s.id for branch in table.branches for s in branch.snapshots),
        updated_ms=max((s.time_ms for branch in table.branches for s in branch.snapshots), default=0),
        # How much each one added stands in its manifests, which nobody has read yet.
        commits=tuple(Commit(s.time_ms, None, s.id) for branch in table.branches for s in branch.snapshots),
        properties=dict(table.main.schema.options),
    )


def _version(snapshot: Snapshot) -> int:
    """The first version wrote none; one that is no number is refused afterwards, for what it is."""
    return snapshot.version if isinstance(snapshot.version, int) else 1


def _roots(table: PaimonTable) -> Iterable[str]:
    """Every directory the table writes to, or has written to: names are judged by the path below the deepest.

    The data directory is one apart. Options change: what was written under earlier ones stays where it is.
    """
    roots = {table.location: None}
    for schema in (schema for branch in table.branches for schema in (branch.schema, *branch.earlier)):
        below = data_directory(schema.options)
        outside = [FileUri.parse(path).as_prefix() for path in external_paths(schema.options)]
        for root in (table.location, *outside):
            roots[root] = None
            if below:
                roots[f"{root}{below}/"] = None
    return roots


def _refs(table: PaimonTable) -> Iterator[Ref]:
    for branch in table.branches:
        # Ids begin with 1: a branch that was made without a snapshot is at 0.
        yield Ref(branch.name, branch.latest.id if branch.latest else 0, "branch")
        prefix = "" if branch.name == MAIN else f"{branch.name}/"
        yield from (Ref(prefix + tag.name, tag.snapshot.id, "tag") for tag in branch.tags)


def _lists(table: PaimonTable) -> Iterator[ManifestList]:
    """Each manifest list once; one that must be there is certain even if another mention is soft.

    Soft are the mentions that outlive their file in a healthy table, as the format's own expiry has it:
    - a tag's changelog list. A tag keeps its snapshot's data, and the snapshot's changelog goes when the snapshot does.
    - base and delta of a decoupled changelog. It keeps what changelog readers read: its changelog list. Only where the
      table produces no changelog files, and the changelog is the delta itself, do base and delta stay with it.
    """
    certain: dict[str, ManifestList] = {}
    maybe: dict[str, ManifestList] = {}

    def note(name: str | None, snapshot: Snapshot, soft: bool) -> None:
        if name is not None:
            uri = table.manifest(name)
            item = ManifestList(uri, soft=soft, snapshot_id=snapshot.id, length=snapshot.length_of(name))
            (maybe if soft else certain).setdefault(uri, item)

    for branch in table.branches:
        for snapshot in branch.snapshots:
            note(snapshot.base, snapshot, soft=False)
            note(snapshot.delta, snapshot, soft=False)
            note(snapshot.changelog, snapshot, soft=snapshot.changelog in table.gone)
        for tag in branch.tags:
            note(tag.snapshot.base, tag.snapshot, soft=False)
            note(tag.snapshot.delta, tag.snapshot, soft=False)
            note(tag.snapshot.changelog, tag.snapshot, soft=True)
        for changelog in branch.changelogs:
            only_delta = changelog.changelog is None and not branch.produces_changelog
            note(changelog.base, changelog, soft=not only_delta)
            note(changelog.delta, changelog, soft=not only_delta)
            note(changelog.changelog, changelog, soft=False)
    yield from certain.values()
    yield from (item for uri, item in maybe.items() if uri not in certain)


def _index_manifests(table: PaimonTable) -> Iterator[NamedManifest]:
    """Each index manifest once. A decoupled changelog's goes with its snapshot, so that mention is soft."""
    certain = dict.fromkeys(s.index_manifest for s in _kept(table) if s.index_manifest)
    gone = dict.fromkeys(s.index_manifest for b in table.branches for s in b.changelogs if s.index_manifest)
    yield from (NamedManifest(table.manifest(name), Kind.INDEX) for name in certain)
    yield from (NamedManifest(table.manifest(name), Kind.INDEX, soft=True) for name in gone if name not in certain)


def _statistics(table: PaimonTable) -> Iterable[str]:
    """Statistics of snapshots and tags. A decoupled changelog's went with its snapshot, and nobody reads them of it."""
    return dict.fromkeys(f"{table.location}statistics/{s.statistics}" for s in _kept(table) if s.statistics)


def _kept(table: PaimonTable) -> Iterator[Snapshot]:
    """Every snapshot and tag: what readers can still open whole."""
    for branch in table.branches:
        yield from branch.snapshots
        yield from (tag.snapshot for tag in branch.tags)
