"""What a REST server is asked to change, and on what condition, in PyIceberg's words. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from lakewarden.formats.iceberg.commit.steps import snapshot_ids
from lakewarden.formats.iceberg.metadata.refs import BRANCH, head_of, refs_of

if TYPE_CHECKING:
    from pyiceberg.table.update import TableRequirement, TableUpdate

SEQUENCE_NUMBERS = 2
ROW_LINEAGE = 3


def refs_unmoved(document: Mapping[str, Any]) -> list[TableRequirement]:
    from pyiceberg.table.update import AssertRefSnapshotId, AssertTableUUID

    refs: list[TableRequirement] = [
        AssertRefSnapshotId(ref=name, snapshot_id=int(ref["snapshot-id"])) for name, ref in refs_of(document).items()
    ]
    return [AssertTableUUID(uuid=document["table-uuid"]), *refs]


def branch_unmoved(document: Mapping[str, Any], branch: str) -> list[TableRequirement]:
    from pyiceberg.table.update import AssertRefSnapshotId, AssertTableUUID

    head = head_of(document, branch)
    number = int(head["snapshot-id"]) if head is not None else None
    return [AssertTableUUID(uuid=document["table-uuid"]), AssertRefSnapshotId(ref=branch, snapshot_id=number)]


def newest(document: Mapping[str, Any], snapshot: Mapping[str, Any], branch: str) -> Iterator[TableUpdate]:
    """The snapshot, and the branch moved to it; how long it keeps its snapshots would be forgotten if it were not said."""
    from pyiceberg.table.snapshots import Snapshot
    from pyiceberg.table.update import AddSnapshotUpdate, SetSnapshotRefUpdate

    ref = {"type": BRANCH, **refs_of(document).get(branch, {}), "snapshot-id": snapshot["snapshot-id"]}
    yield AddSnapshotUpdate(snapshot=Snapshot.model_validate(snapshot))
    yield SetSnapshotRefUpdate.model_validate({"action": "set-snapshot-ref", "ref-name": branch, **ref})


def properties_set(
    document: Mapping[str, Any], properties: Mapping[str, str]
) -> tuple[list[TableRequirement], list[TableUpdate]]:
    from pyiceberg.table.update import AssertTableUUID, SetPropertiesUpdate

    return [AssertTableUUID(uuid=document["table-uuid"])], [SetPropertiesUpdate(updates=dict(properties))]


def removals(document: Mapping[str, Any], snapshots: Collection[int], refs: Collection[str]) -> Iterator[TableUpdate]:
    from pyiceberg.table.update import (
        RemovePartitionStatisticsUpdate,
        RemoveSnapshotRefUpdate,
        RemoveSnapshotsUpdate,
        RemoveStatisticsUpdate,
    )

    for key, update in (
        ("statistics", RemoveStatisticsUpdate),
        ("partition-statistics", RemovePartitionStatisticsUpdate),
    ):
        for entry in document.get(key) or []:
            if int(entry["snapshot-id"]) in snapshots:
                yield update(snapshot_id=int(entry["snapshot-id"]))
    for name in refs:
        yield RemoveSnapshotRefUpdate(ref_name=name)
    # Each on its own: servers of older versions take one id at a time.
    for number in sorted(snapshots):
        yield RemoveSnapshotsUpdate(snapshot_ids=[number])


def ref_absent(name: str) -> TableRequirement:
    from pyiceberg.table.update import AssertRefSnapshotId

    return AssertRefSnapshotId(ref=name, snapshot_id=None)


def ref_restored(
    name: str, ref: Mapping[str, Any], before: Mapping[str, Any], now: Mapping[str, Any]
) -> Iterator[TableUpdate]:
    from pyiceberg.table.snapshots import Snapshot
    from pyiceberg.table.update import AddSnapshotUpdate, SetSnapshotRefUpdate

    number = int(ref["snapshot-id"])
    if number not in snapshot_ids(now):
        raw = dict(next(s for s in before["snapshots"] if int(s["snapshot-id"]) == number))
        # A server counts on from the sequence number of the snapshot that it was given last, so an old one would set it
        # back; and it takes row ids only ahead of all others. The files' own numbers and ids are in the manifests.
        if int(now["format-version"]) >= SEQUENCE_NUMBERS:
            raw["sequence-number"] = int(now["last-sequence-number"]) + 1
        if int(now["format-version"]) >= ROW_LINEAGE:
            raw |= {"first-row-id": int(now["next-row-id"]), "added-rows": 0}
        yield AddSnapshotUpdate(snapshot=Snapshot.model_validate(raw))
    yield SetSnapshotRefUpdate.model_validate({"action": "set-snapshot-ref", "ref-name": name, **ref})
