"""Which deletes apply to which data files (specification, "Scan Planning"), and which apply to none any more."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from lakewarden.formats.iceberg.data.deletes import FILE_PATH
from lakewarden.formats.iceberg.data.order import EQUALITY, POSITION, VECTOR, DeleteFile
from lakewarden.formats.iceberg.partitions.specs import Spec, key_of

_POSITION_CONTENT = 1

Record = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class LiveFile:
    """A live file of a snapshot, of data or deletes, with what its entry inherits spelled out."""

    spec: int
    sequence: int
    entry: Record

    @property
    def file(self) -> Record:
        found: Record = self.entry["data_file"]
        return found

    @property
    def path(self) -> str:
        return str(self.file["file_path"])

    @property
    def partition(self) -> bytes:
        return key_of(self.spec, self.file["partition"])


@dataclass(frozen=True, slots=True)
class LiveDelete:
    """A live file of deletes, and the one data file that it is about, if it is about one."""

    live: LiveFile
    deletion: DeleteFile
    about: str | None


@dataclass
class DeleteIndex:
    """The deletes of one snapshot, found by the data file that they may apply to."""

    specs: Mapping[int, Spec]
    _by_path: dict[str, list[LiveDelete]] = field(default_factory=dict)
    _by_partition: dict[bytes, list[LiveDelete]] = field(default_factory=dict)
    _everywhere: list[LiveDelete] = field(default_factory=list)

    @staticmethod
    def of(deletes: Iterable[LiveFile], specs: Mapping[int, Spec]) -> DeleteIndex:
        found = DeleteIndex(specs)
        for live in deletes:
            one = live_delete(live)
            if one.deletion.kind == EQUALITY and specs[live.spec].unpartitioned:
                # Written without a partition, it deletes in all of them, also in those of later specs.
                found._everywhere.append(one)
            elif one.about is not None:
                found._by_path.setdefault(one.about, []).append(one)
            else:
                found._by_partition.setdefault(live.partition, []).append(one)
        return found

    def on(self, data: LiveFile) -> Iterator[LiveDelete]:
        """What applies to a data file."""
        if not (self._by_path or self._by_partition or self._everywhere):
            return
        nearby = (
            *self._by_path.get(data.path, ()),
            *self._by_partition.get(data.partition, ()),
            *self._everywhere,
        )
        vector = any(one.deletion.kind == VECTOR for one in self._by_path.get(data.path, ()))
        for one in nearby:
            if one.deletion.kind == EQUALITY:
                applies = data.sequence < one.live.sequence
            else:
                # One that names its data file was found by that name; no reader asks for its partition then.
                applies = data.sequence <= one.live.sequence
            # A vector holds what position deletes said before it.
            if applies and not (vector and one.deletion.kind == POSITION):
                yield one

    def all(self) -> Iterator[LiveDelete]:
        for group in (*self._by_path.values(), *self._by_partition.values(), self._everywhere):
            yield from group


def live_delete(live: LiveFile) -> LiveDelete:
    """A file of deletes as rewriting needs it."""
    file = live.file
    vector = str(file["file_format"]).upper() == "PUFFIN"
    kind = VECTOR if vector else POSITION if file["content"] == _POSITION_CONTENT else EQUALITY
    return LiveDelete(
        live,
        DeleteFile(
            path=live.path,
            kind=kind,
            size=int(file["file_size_in_bytes"]),
            rows=int(file["record_count"]),
            equality_ids=tuple(int(number) for number in file.get("equality_ids") or ()) if kind == EQUALITY else (),
            offset=file.get("content_offset") if vector else None,
            length=file.get("content_size_in_bytes") if vector else None,
        ),
        None if kind == EQUALITY else _about(file),
    )


def _about(file: Record) -> str | None:
    """The one data file that position deletes name; None if there may be several."""
    if (said := file.get("referenced_data_file")) is not None:
        return str(said)
    lower, upper = (_bound(file.get(name), FILE_PATH) for name in ("lower_bounds", "upper_bounds"))
    return lower.decode() if lower is not None and lower == upper else None


def _bound(bounds: Any, number: int) -> bytes | None:
    if isinstance(bounds, Mapping):
        return bounds.get(number)
    return next((bytes(item["value"]) for item in bounds or () if item["key"] == number), None)


@dataclass(frozen=True, slots=True)
class Ages:
    """How old the data is that a snapshot holds: the lowest sequence number in each partition, and of all. Lower than
    the truth may be said, never higher. Nothing is said of a partition that is not in `known`.
    """

    known: Collection[bytes]
    oldest: Mapping[bytes, int]
    of_all: int | None


def idle_deletes(index: DeleteIndex, gone: Collection[str], ages: Ages) -> set[str]:
    """The names of deletes that apply to nothing once the data files in `gone` are gone, and those of `ages` are left.

    What is not known stays. So do position deletes that may be about several files: only their rows could tell. An
    equality delete goes when nothing that it reaches is older than it.
    """
    idle = {one.deletion.name for one in index.all() if one.about is not None and one.about in gone}
    for one in index.all():
        if one.deletion.kind != EQUALITY:
            continue
        everywhere = index.specs[one.live.spec].unpartitioned
        if not everywhere and one.live.partition not in ages.known:
            continue
        reached = ages.of_all if everywhere else ages.oldest.get(one.live.partition)
        if reached is None or one.live.sequence <= reached:
            idle.add(one.deletion.name)
    return idle
