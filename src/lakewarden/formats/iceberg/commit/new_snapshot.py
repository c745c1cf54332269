"""A snapshot of our own that takes files away, and may put others in their place: its manifests, its list, its summary.

Manifests are rewritten in the form their writers gave them. Whatever an entry inherits from the list is written out,
because the new manifest has another sequence number and would hand on another one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from lakewarden.formats.avro import AvroFile, Record, write_again, write_avro
from lakewarden.formats.iceberg.commit.next_document import next_location
from lakewarden.formats.iceberg.manifests.files import (
    ADDED,
    DATA,
    DELETED,
    EXISTING,
    ROW_IDS,
    list_of_version,
    live_count,
    manifest_of_version,
    read_manifest,
    set_counts,
)
from lakewarden.formats.iceberg.metadata.refs import MAIN, head_of
from lakewarden.model.errors import IncompleteManifestError, StoreUnavailableError
from lakewarden.model.lineage import made_of
from lakewarden.model.ports import Files
from lakewarden.model.uri import canonical

POSITION = 1
# What a snapshot's totals gain by what it adds, and lose by what it removes.
TOTALS = {
    "total-data-files": ("added-data-files", "deleted-data-files"),
    "total-delete-files": ("added-delete-files", "removed-delete-files"),
    "total-records": ("added-records", "deleted-records"),
    "total-files-size": ("added-files-size", "removed-files-size"),
    "total-position-deletes": ("added-position-deletes", "removed-position-deletes"),
    "total-equality-deletes": ("added-equality-deletes", "removed-equality-deletes"),
}

Goes = Callable[[int, Record], bool]


@dataclass(slots=True)
class Removal:
    """One commit in the making: which snapshot it will be, in which directory it writes, and what it took so far."""

    snapshot_id: int
    sequence: int
    version: int
    directory: str
    unique: str
    operation: str = "delete"
    branch: str = MAIN
    summary: Counter[str] = field(default_factory=Counter)

    def manifest(
        self,
        files: Files,
        number: int,
        row: Record,
        goes: Goes,
        read: Callable[[Files, Record], AvroFile] = read_manifest,
    ) -> Record:
        """Write the manifest of this row again, less the files that go; the row that names the new one."""
        old = manifest_of_version(read(files, row), self.version)
        counts: Counter[str] = Counter()
        kept: list[tuple[int, Record]] = []
        oldest: list[int] = []
        spec = int(row["partition_spec_id"])
        for place, entry in enumerate(spelled_out(old.records, row, self.version)):
            if entry["status"] == DELETED:
                continue
            gone = goes(spec, entry)
            entry["status"] = DELETED if gone else EXISTING
            kind = "deleted" if gone else "existing"
            counts[f"{kind}_files_count"] += 1
            counts[f"{kind}_rows_count"] += entry["data_file"]["record_count"]
            if gone:
                entry["snapshot_id"] = self.snapshot_id
                for name, count in _removed(entry["data_file"]).items():
                    self.summary[name] += count
            elif self.version > 1:
                oldest.append(entry["sequence_number"])
            kept.append((place, entry))
        data = write_again(old, kept)
        uri = f"{self.directory}/{self.unique}-m{number}.avro"
        create_new(files, uri, data)
        new = {**row, "manifest_path": uri, "manifest_length": len(data), "added_snapshot_id": self.snapshot_id}
        set_counts(new, {f"{kind}_{what}_count": counts[f"{kind}_{what}_count"] for kind in KINDS for what in WHAT})
        if self.version > 1:
            new |= {"sequence_number": self.sequence, "min_sequence_number": min(oldest, default=self.sequence)}
        return new

    def snapshot(
        self,
        files: Files,
        document: Mapping[str, Any],
        manifests: AvroFile,
        rows: Iterable[Record],
        now_ms: int,
        properties: Mapping[str, str],
    ) -> dict[str, Any]:
        """Write the list of these manifests; the snapshot that names it, as metadata has it."""
        parent = head_of(document, self.branch)
        assert parent is not None
        left = [row for row in rows if live_count(row) != 0 or row["added_snapshot_id"] == self.snapshot_id]
        header = {
            **manifests.header,
            "snapshot-id": str(self.snapshot_id),
            "parent-snapshot-id": str(parent["snapshot-id"]),
            "format-version": str(self.version),
        }
        made: dict[str, Any] = {
            "snapshot-id": self.snapshot_id,
            "parent-snapshot-id": parent["snapshot-id"],
            "timestamp-ms": max(now_ms, int(document["last-updated-ms"]), int(parent["timestamp-ms"])),
            "manifest-list": f"{self.directory}/snap-{self.snapshot_id}-1-{self.unique}.avro",
            "summary": {
                "operation": self.operation,
                **made_of(
                    [int(parent["snapshot-id"])], self.summary["deleted-records"], self.summary["removed-files-size"]
                ),
                **properties,
                **self._summary(parent.get("summary") or {}),
            },
        }
        if document.get("current-schema-id") is not None:
            made["schema-id"] = document["current-schema-id"]
        if self.version > 1:
            made["sequence-number"] = self.sequence
            header["sequence-number"] = str(self.sequence)
        if self.version >= ROW_IDS:
            first = int(document["next-row-id"])
            made |= {"first-row-id": first, "added-rows": _number_rows(left, first)}
            header["first-row-id"] = str(first)
        whole = list_of_version(replace(manifests, header=header, records=tuple(left)), self.version)
        create_new(files, made["manifest-list"], write_avro(whole))
        return made

    def _summary(self, parent: Mapping[str, str]) -> dict[str, str]:
        totals = {
            total: str(max(0, int(parent[total]) + self.summary[added] - self.summary[taken]))
            for total, (added, taken) in TOTALS.items()
            if total in parent
        }
        return {name: str(count) for name, count in self.summary.items() if count} | totals


KINDS = ("added", "existing", "deleted")
WHAT = ("files", "rows")


def start_removal(document: Mapping[str, Any], location: str, snapshot_id: int, unique: str) -> Removal:
    """A commit on top of this document."""
    return Removal(
        snapshot_id=snapshot_id,
        sequence=int(document.get("last-sequence-number") or 0) + 1,
        version=int(document["format-version"]),
        directory=next_location(document, location, unique).rpartition("/")[0],
        unique=unique,
    )


def current_snapshot(document: Mapping[str, Any]) -> Mapping[str, Any] | None:
    return head_of(document)


def spelled_out(entries: Collection[Record], row: Mapping[str, Any], version: int) -> Iterator[Record]:
    """The entries with what they inherit from the row that names their manifest. Deleted ones are left as they are."""
    next_row = row.get("first_row_id")
    for found in entries:
        entry = {**found, "data_file": dict(found["data_file"])}
        if entry["snapshot_id"] is None:
            entry["snapshot_id"] = row["added_snapshot_id"]
        if version > 1 and entry["status"] != DELETED:
            given = int(row.get("sequence_number") or 0)
            for name in ("sequence_number", "file_sequence_number"):
                if entry[name] is None:
                    if entry["status"] != ADDED and given != 0:
                        raise IncompleteManifestError(
                            f"{row['manifest_path']} has a file without a {name}; nothing was changed"
                        )
                    entry[name] = given
        file = entry["data_file"]
        if next_row is not None and entry["status"] != DELETED and file.get("first_row_id") is None:
            file["first_row_id"] = next_row
            next_row += file["record_count"]
        yield entry


def _number_rows(rows: Iterable[Record], first: int) -> int:
    """Give row ids to the manifests that have none yet: those of a table that came from an older version."""
    given = first
    for row in rows:
        if row.get("content", DATA) == DATA and row.get("first_row_id") is None:
            row["first_row_id"] = given
            given += int(row.get("added_rows_count") or 0) + int(row.get("existing_rows_count") or 0)
    return given - first


def _removed(file: Mapping[str, Any]) -> dict[str, int]:
    """What the summary counts for one file that goes."""
    size, records = int(file["file_size_in_bytes"]), int(file["record_count"])
    content = file.get("content") or 0
    if content == 0:
        return {"deleted-data-files": 1, "deleted-records": records, "removed-files-size": size}
    vector = str(file["file_format"]).upper() == "PUFFIN"
    kind = "position" if content == POSITION else "equality"
    return {
        "removed-delete-files": 1,
        "removed-dvs" if vector else f"removed-{kind}-delete-files": 1,
        f"removed-{kind}-deletes": records,
        "removed-files-size": int(file.get("content_size_in_bytes") or 0) if vector else size,
    }


def create_new(files: Files, uri: str, data: bytes) -> None:
    if not files.create(canonical(uri), data):
        raise StoreUnavailableError(f"{uri} is there already, which its name should rule out; nothing was changed")
