"""Which snapshots of a table have aged out and wait for the cold tier, and where they would go."""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, takewhile
from operator import attrgetter

from lakewarden.jobs.tier_handoff.cold_place import cold_place
from lakewarden.ledger.archives import Archive
from lakewarden.model.errors import (
    ConfigError,
    LakewardenError,
    Refusal,
    UnreadableMetadataError,
    UnsupportedTableError,
)
from lakewarden.model.roots import Root
from lakewarden.model.table import TableState
from lakewarden.model.tiers import AgedSnapshot, HandoffPolicy, Move, cold_directory, cold_uuid
from lakewarden.model.uri import FileUri
from lakewarden.steps.deployment import Deployment
from lakewarden.steps.observe.fleet import Fleet
from lakewarden.storage.copying import classes_of

NOTHING_WAITS = "no snapshot has expired since the last handover"


@dataclass(frozen=True)
class AgedOut:
    """What waits of one table: its snapshots, the archive that describes each, and its directory in the cold place."""

    snapshots: tuple[AgedSnapshot, ...]
    archives: Mapping[int, Archive]
    location: str
    directory: str

    @property
    def move(self) -> Move:
        return Move(FileUri.parse(self.location).as_prefix(), self.directory)


def aged_out(deployment: Deployment, state: TableState, policy: HandoffPolicy, fleet: Fleet) -> AgedOut | Refusal | str:
    """What waits; or why the table is left alone; or, as text, why nothing waits."""
    if policy.destination is None:
        return "no destination is configured for it"
    relocator = deployment.format_of(state.identifier).relocator
    if relocator is None:
        why = (
            f"snapshots of {state.format} tables cannot be handed to the cold tier by this version; nothing was copied"
        )
        return UnsupportedTableError(why).refusal()
    cold = [s for s in deployment.ledger.cold.snapshots(state.uuid) if _below(s.destination, policy.destination)]
    # A table that was renamed goes on where it began, so that shared files are not copied twice.
    directory = cold[-1].destination if cold else cold_directory(policy.destination, state.identifier, state.uuid)
    if (wrong := misplaced(deployment, policy, directory, fleet, cold_uuid(directory, state.uuid))) is not None:
        return ConfigError(f"{wrong}; nothing of {state.identifier} was copied").refusal()
    # An archive is kept before the commit: what the table still has was not expired after all.
    expired = {
        number: archive
        for archive in deployment.ledger.archives.of(state.uuid)
        for number in archive.snapshots
        if number not in state.snapshot_ids
    }
    if not expired:
        return NOTHING_WAITS
    snapshots: list[AgedSnapshot] = []
    location = state.location
    try:
        place = cold_place(deployment.stores, deployment.ledger, relocator, state.uuid, directory)
        # The ledger's word is not enough: somebody may have emptied the cold place.
        handed = {s.snapshot_id for s in cold if s.destination != directory or s.snapshot_id in place.snapshots}
        waiting = {number: archive for number, archive in expired.items() if number not in handed}
        if not waiting:
            return NOTHING_WAITS
        for archive in {archive.uri: archive for archive in waiting.values()}.values():
            numbers = sorted(number for number, its in waiting.items() if its.uri == archive.uri)
            location, found = relocator.aged(archived(deployment, archive), archive.uri, numbers)
            snapshots += found
    except LakewardenError as error:
        return error.refusal()
    # A table may be given another location, with files of the same paths: the first one's copies have these for ever.
    location = place.location or location
    return AgedOut(
        tuple(sorted(snapshots, key=lambda s: (s.committed_ms, s.snapshot_id))), waiting, location, directory
    )


def archived(deployment: Deployment, archive: Archive) -> bytes:
    """An archived metadata document, proven to be the one that was kept. Raises UnreadableMetadataError."""
    try:
        data = deployment.stores.get(archive.uri)
    except FileNotFoundError as error:
        raise UnreadableMetadataError(f"the archived metadata {archive.uri} is gone; nothing was copied") from error
    if hashlib.sha256(data).hexdigest() != archive.sha256:
        raise UnreadableMetadataError(f"the archived metadata {archive.uri} was changed; nothing was copied")
    return data


def misplaced(deployment: Deployment, policy: HandoffPolicy, directory: str, fleet: Fleet, cold: str) -> str | None:
    """Why the cold place cannot be there: what lies in a table's root is swept, and in our state it would be in the way.

    The root of the cold table itself, where somebody registered it, is never swept: it says gc.enabled=false.
    """
    asked = f"tier_handoff.destination = {policy.destination}"
    own = FileUri.parse(directory).as_prefix()
    if near := list(_around_or_below(own, fleet.roots)):
        itself = {state.identifier for state in fleet.states if state.uuid == cold}
        for root in near:
            if not itself.issuperset(root.tables):
                return f"{asked} lies within the root {root.prefix} of {root.tables[0]}, which orphan cleanup sweeps"
    if own.startswith(deployment.state) or deployment.state.startswith(own):
        return f"{asked} and state.location {deployment.state} lie within each other"
    if (policy.storage_class or policy.tags) and classes_of(deployment.stores, directory) is None:
        key = "storage_class" if policy.storage_class else "tags"
        return f"tier_handoff.{key} is set, and the store of {policy.destination} has no storage classes or tags"
    return None


def _around_or_below(prefix: str, roots: Sequence[Root]) -> Iterator[Root]:
    """The roots that a prefix lies in, or that lie in it. Roots are in order, and none lies within another."""
    place = bisect_right(roots, prefix, key=attrgetter("prefix"))
    if place and prefix.startswith(roots[place - 1].prefix):
        yield roots[place - 1]
    yield from takewhile(lambda root: root.prefix.startswith(prefix), islice(roots, place, None))


def _below(directory: str, destination: str) -> bool:
    return FileUri.parse(directory).as_prefix().startswith(FileUri.parse(destination).as_prefix())
