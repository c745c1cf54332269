"""Who needs files of a Paimon table: every snapshot of each branch, tags of others, changelogs.

Each snapshot speaks for itself. That it was made of the one before it is not to be trusted: a branch that was merged by
moving its snapshots over leaves ids in a row whose histories have nothing to do with each other. All branches and tags
hold, whatever branch is being expired: they share one pool of files.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from lakewarden.formats.paimon.metadata.table import Branch, PaimonTable, Snapshot
from lakewarden.model.table import Hold, Holder, ManifestList, NamedManifest, ReachedFile
from lakewarden.model.verdict import Kind

Ids = Collection[int]
NONE: Mapping[str, Ids] = {}


def holders(
    table: PaimonTable, expired: Mapping[str, Ids] = NONE, changelogs: Mapping[str, Ids] = NONE
) -> tuple[Holder, ...]:
    """Who needs files once these snapshots and changelogs of each branch have gone."""
    found: list[Holder] = []
    for branch in table.branches:
        kept = [s for s in branch.snapshots if s.id not in expired.get(branch.name, ())]
        found += _branch_holders(table, branch, kept)
        held = [c for c in branch.changelogs if c.id not in changelogs.get(branch.name, ())]
        found += changelog_holders(table, branch, held)
    return tuple(found)


def _branch_holders(table: PaimonTable, branch: Branch, kept: Sequence[Snapshot]) -> Iterator[Holder]:
    yield from (_shown(table, s) for s in kept)
    changelogs = tuple(_list(table, s, s.changelog, soft=s.changelog in table.gone) for s in kept if s.changelog)
    yield Holder(Hold.ADDED, changelogs, (), _named(changelogs))
    covered = {(s.id, s.base, s.delta) for s in kept}
    for tag in branch.tags:
        if (tag.snapshot.id, tag.snapshot.base, tag.snapshot.delta) not in covered:
            yield _shown(table, tag.snapshot)


def _shown(table: PaimonTable, snapshot: Snapshot) -> Holder:
    """What one snapshot shows: base and delta merged, its index and statistics."""
    return Holder(
        Hold.NET,
        tuple(_list(table, snapshot, name) for name in (snapshot.base, snapshot.delta) if name),
        _index_manifests(table, [snapshot]),
        tuple(_files(table, [snapshot])),
    )


def changelog_holders(table: PaimonTable, branch: Branch, items: Iterable[Snapshot]) -> Iterator[Holder]:
    """What changelogs that outlived their snapshots need: all that their own lists name.

    One without a list of its own is its delta, unless the table writes changelog files: then its readers look at nothing
    else, and base and delta go with the snapshot, as the format has it.
    """
    for item in items:
        if item.changelog is None and branch.produces_changelog:
            continue
        names = [item.base, item.delta] if item.changelog is None else [item.changelog]
        lists = tuple(_list(table, item, name) for name in names if name)
        yield Holder(Hold.ALL, lists, (), _named(lists))


def _named(lists: Iterable[ManifestList]) -> tuple[ReachedFile, ...]:
    return tuple(ReachedFile(found.uri, Kind.MANIFEST_LIST) for found in lists if not found.soft)


def _list(table: PaimonTable, snapshot: Snapshot, name: str, *, soft: bool = False) -> ManifestList:
    return ManifestList(table.manifest(name), soft=soft, snapshot_id=snapshot.id, length=snapshot.length_of(name))


def _index_manifests(
    table: PaimonTable, snapshots: Iterable[Snapshot], *, soft: bool = False
) -> tuple[NamedManifest, ...]:
    names = dict.fromkeys(s.index_manifest for s in snapshots if s.index_manifest)
    return tuple(NamedManifest(table.manifest(name), Kind.INDEX, soft=soft) for name in names)


def _files(table: PaimonTable, snapshots: Iterable[Snapshot]) -> Iterator[ReachedFile]:
    """What a snapshot file itself names, but for its changelog, which goes and stays by rules of its own."""
    for s in snapshots:
        yield from (ReachedFile(table.manifest(name), Kind.MANIFEST_LIST) for name in (s.base, s.delta) if name)
        if s.index_manifest:
            yield ReachedFile(table.manifest(s.index_manifest), Kind.MANIFEST)
        if s.statistics:
            yield ReachedFile(f"{table.location}statistics/{s.statistics}", Kind.STATISTICS)
