"""What a branch's newest snapshot holds of some files: where they are, which deletes apply to them, how old the rest is.

A table may have more manifests than a driver should read. The list tells of each manifest which partitions and which
sequence numbers it has, so only those are opened that can hold one of the files, or deletes that may apply to it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lakewarden.formats.avro import AvroFile, Record
from lakewarden.formats.iceberg.commit.new_snapshot import spelled_out
from lakewarden.formats.iceberg.data.applicable import Ages, DeleteIndex, LiveFile, live_delete
from lakewarden.formats.iceberg.data.order import EQUALITY
from lakewarden.formats.iceberg.manifests.files import (
    DATA,
    DELETED,
    DELETES,
    live_count,
    manifest_of_version,
    read_list,
    read_manifest,
)
from lakewarden.formats.iceberg.manifests.opened import OpenedManifests
from lakewarden.formats.iceberg.partitions.bounds import may_hold
from lakewarden.formats.iceberg.partitions.specs import Spec, specs_of
from lakewarden.model.ports import Files

Values = Mapping[int, Sequence[Sequence[Any]]]


@dataclass(frozen=True, slots=True)
class Wanted:
    """The data files that are looked for; where it is known, in which partitions, and with which sequence numbers.

    `once_at`: the sequence number of a snapshot that is known to have had each of them once.
    """

    paths: frozenset[str]
    partitions: frozenset[bytes] | None = None
    sequences: frozenset[int] | None = None
    once_at: int = 0


@dataclass
class Head:
    """What a snapshot holds, as far as the wanted files have to do with it. `others`: the lowest sequence number of what
    else is in each partition; `unread`: rows of the list whose manifests stayed unopened; `twice`: wanted files that were
    found more than once.
    """

    manifests: AvroFile
    specs: Mapping[int, Spec]
    data: dict[str, tuple[int, LiveFile]] = field(default_factory=dict)
    others: dict[bytes, int] = field(default_factory=dict)
    unread: list[Record] = field(default_factory=list)
    deletes: DeleteIndex = field(default_factory=lambda: DeleteIndex({}))
    places: dict[str, int] = field(default_factory=dict)
    twice: set[str] = field(default_factory=set)

    def ages(self, gone: Collection[str], new: Sequence[LiveFile], known: Collection[bytes]) -> Ages:
        """How old the data is that stays when the files in `gone` leave and the new ones come."""
        oldest = dict(self.others)
        left = [live for path, (_, live) in self.data.items() if path not in gone]
        for one in (*left, *new):
            oldest[one.partition] = min(oldest.get(one.partition, one.sequence), one.sequence)
        of_all = min((*oldest.values(), *map(_lowest, self.unread)), default=None)
        # Only where there are deletes by value does it matter how old what was left unread may be.
        asked = {one.live.partition for one in self.deletes.all() if one.deletion.kind == EQUALITY}
        for partition in asked.intersection(known):
            values = _by_spec([partition])
            unread = [_lowest(row) for row in self.unread if _may_be_in(row, self.specs, values)]
            if unread:
                oldest[partition] = min(oldest.get(partition, unread[0]), *unread)
        return Ages(known, oldest, of_all)


def read_head(
    files: Files,
    document: Mapping[str, Any],
    snapshot: Mapping[str, Any],
    wanted: Wanted,
    opened: OpenedManifests | None = None,
) -> Head:
    """Look for the wanted files, and for every delete that may apply to them. Raises what reading manifests raises."""
    version, specs = int(document["format-version"]), specs_of(document)
    opened = opened or OpenedManifests()
    head = Head(read_list(files, snapshot), specs)
    rows = [(place, row) for place, row in enumerate(head.manifests.records) if live_count(row) != 0]
    data = [(place, row) for place, row in rows if content_of(row) == DATA]
    # The likeliest first: when every file is found, the other manifests need not be opened.
    values = None if wanted.partitions is None else _by_spec(wanted.partitions)
    for place, row in sorted(data, key=lambda item: (_highest(item[1]) - _lowest(item[1]), item[0])):
        if len(head.data) == len(wanted.paths) or not _may_have(row, specs, values, wanted.sequences):
            head.unread.append(row)
            continue
        for live in live_files(files, row, version, opened.read):
            if live.path in wanted.paths:
                if live.path in head.data:
                    head.twice.add(live.path)
                head.data[live.path] = place, live
            else:
                head.others[live.partition] = min(head.others.get(live.partition, live.sequence), live.sequence)
    found = [live for _, live in head.data.values()]
    reached = {live.partition for live in found} | (wanted.partitions or frozenset())
    nearby = _by_spec(reached)
    since = min((live.sequence for live in found), default=0)
    deletes: list[LiveFile] = []
    for place, row in rows if found else ():
        if content_of(row) != DELETES or not _may_delete(row, specs, nearby, since):
            continue
        for live in live_files(files, row, version, opened.read):
            one = live_delete(live)
            everywhere = one.deletion.kind == EQUALITY and specs[live.spec].unpartitioned
            if everywhere or (one.about in wanted.paths if one.about is not None else live.partition in reached):
                deletes.append(live)
                head.places[one.deletion.name] = place
    head.deletes = DeleteIndex.of(deletes, specs)
    # Newer deletes that name a file may be about a second entry of it too, and must not go with the first.
    newer = (one.about for one in head.deletes.all() if one.about and one.live.sequence > wanted.once_at)
    named = head.data.keys() & set(newer)
    # Found may be the second: then the first is in any manifest.
    anywhere = any(head.data[path][1].sequence > wanted.once_at for path in named)
    for row in head.unread if named else ():
        if anywhere or _highest(row) > wanted.once_at:
            again = (live.path for live in live_files(files, row, version, opened.read))
            head.twice.update(named.intersection(again))
    return head


def live_files(
    files: Files, row: Record, version: int, read: Callable[[Files, Record], AvroFile] = read_manifest
) -> Iterator[LiveFile]:
    """The live files of a manifest, with what they inherit."""
    spec = int(row["partition_spec_id"])
    entries = manifest_of_version(read(files, row), version).records
    for entry in spelled_out(entries, row, version):
        if entry["status"] != DELETED:
            yield LiveFile(spec, int(entry["sequence_number"]) if version > 1 else 0, entry)


def content_of(row: Mapping[str, Any]) -> int:
    return int(row.get("content") or DATA)


def _may_have(row: Record, specs: Mapping[int, Spec], values: Values | None, sequences: Collection[int] | None) -> bool:
    """Whether a manifest may have data of these partitions with one of these sequence numbers."""
    if sequences is not None and not any(_lowest(row) <= number <= _highest(row) for number in sequences):
        return False
    return values is None or _may_be_in(row, specs, values)


def _may_delete(row: Record, specs: Mapping[int, Spec], values: Values, since: int) -> bool:
    """Whether a manifest may have deletes that apply to data of these partitions, not older than `since`; or that did, and
    now apply to nothing.

    Position deletes may name a file of another partition than their own, and readers believe the name: no manifest that
    is new enough can be left unopened for its partitions.
    """
    everywhere = specs[int(row["partition_spec_id"])].unpartitioned
    return everywhere or _highest(row) >= since or _may_be_in(row, specs, values)


def _may_be_in(row: Record, specs: Mapping[int, Spec], values: Values) -> bool:
    number = int(row["partition_spec_id"])
    return number in values and may_hold(row, specs[number], values[number])


def _by_spec(partitions: Collection[bytes]) -> Values:
    """The values of partitions, by their spec."""
    found: dict[int, list[list[Any]]] = {}
    for partition in partitions:
        number, values = json.loads(partition)
        found.setdefault(number, []).append(values)
    return found


def _lowest(row: Record) -> int:
    """The lowest sequence number in a manifest; those of version 1 have none, which counts as zero."""
    return int(row.get("min_sequence_number") or 0)


def _highest(row: Record) -> int:
    """What no sequence number in a manifest is above: its own."""
    return int(row.get("sequence_number") or 0)
