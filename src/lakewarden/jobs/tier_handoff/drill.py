"""A cold snapshot comes back, in a place of the drill's own: by the same copying as a restore, and no catalog hears of it."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from datetime import datetime

from lakewarden.jobs.tier_handoff.copy_back import CopyBack, there
from lakewarden.jobs.tier_handoff.restore import cold_prefix, relocators_of
from lakewarden.ledger.cold import ColdSnapshot
from lakewarden.model.drill import Drill, DrillPlace, DrillStatus
from lakewarden.model.errors import DrillFailedError
from lakewarden.model.ports import Progress
from lakewarden.model.table import catalog_of
from lakewarden.model.tiers import ARCHIVE_CLASSES, Move
from lakewarden.model.uri import FileUri, canonical, within
from lakewarden.model.verdict import Kind
from lakewarden.steps.deployment import Deployment
from lakewarden.storage.copying import classes_of, holds, sizes_at

# Of every catalog, each day another one of its newest snapshots in the cold tier is tried.
NEWEST = 200


def cold_choice(deployment: Deployment, now: datetime) -> Iterator[ColdSnapshot]:
    """The snapshots that are tried today: one for each catalog that has handed any over."""
    known = relocators_of(deployment)
    by_catalog: dict[str, list[ColdSnapshot]] = {}
    for found in deployment.ledger.cold.newest(NEWEST):
        if (catalog := catalog_of(found.table_name)) in known:
            by_catalog.setdefault(catalog, []).append(found)
    for snapshots in by_catalog.values():
        yield snapshots[now.toordinal() % len(snapshots)]


def drill_cold(deployment: Deployment, found: ColdSnapshot, place: str, most: int, progress: Progress) -> Drill:
    """Bring one snapshot back below `place`: whole where it has at most so many bytes, else its smallest file.

    Raises LakewardenError where it does not come back. Nothing but `place` is written to.
    """
    what = f"snapshot {found.snapshot_id} of {found.table_name}"
    relocator = relocators_of(deployment)[catalog_of(found.table_name)]
    move = Move(cold_prefix(found.destination), place, whole=True)
    back = CopyBack(deployment, relocator, found, move, progress)
    files = back.needed(back.get(found.metadata_uri), found.metadata_uri)
    copies = back.recorded(uri for uris in files.values() for uri in uris)
    smallest = min(
        ((copies[canonical(uri)], kind) for kind in (Kind.DATA, Kind.DELETE) for uri in files.get(kind, ())),
        key=lambda one: (one[0].size, one[0].cold_uri),
        default=None,
    )
    if smallest is not None and _archived(deployment, smallest[0].cold_uri):
        return Drill(
            DrillPlace.COLD, DrillStatus.UNTRIED, f"{what}; its files lie in an archive, which has to be asked"
        )
    if sum(copy.size for copy in copies.values()) <= most:
        written = back.copy(str(uuid.UUID(hex=deployment.new_id() + deployment.new_id(), version=4)))
        _opens(deployment, back, written, len(back.sizes))
    else:
        for uri in (*files[Kind.MANIFEST_LIST], *files[Kind.MANIFEST]):
            if not holds(deployment.stores, uri, copies[canonical(uri)].sha256):
                raise DrillFailedError(f"{uri} has other bytes than were handed over")
        if smallest is not None:
            back.copy_one(*smallest)
            what += ", which is larger than restore_drill.max_megabytes: its metadata, and its smallest file"
    return Drill(DrillPlace.COLD, DrillStatus.PROVEN, what, len(back.sizes), sum(back.sizes.values()))


def _opens(deployment: Deployment, back: CopyBack, written: str, files: int) -> None:
    """The copy, read as an engine would read it, names as many files as were copied, and each is there."""
    document = there(deployment.stores.get_many([written])[0], written)
    named = [uri for uris in back.needed(document, written).values() for uri in uris]
    if outside := [uri for uri in named if not within(canonical(uri), cold_prefix(back.move.target))]:
        raise DrillFailedError(f"{written} names {outside[0]}, which is no copy of the drill's")
    missing = [uri for uri, size in zip(named, sizes_at(deployment.stores, named), strict=True) if size is None]
    if missing or len(named) != files:
        raise DrillFailedError(f"{written} names {len(named)} files, of {files} copied; missing: {missing[:1]}")


def _archived(deployment: Deployment, uri: str) -> bool:
    calls = classes_of(deployment.stores, uri)
    return calls is not None and calls.storage_class(FileUri.parse(uri).key) in ARCHIVE_CLASSES
