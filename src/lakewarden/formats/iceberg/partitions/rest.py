"""Whether rows are left in a table beside some of its partitions: mostly its list of manifests tells, in doubt all of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from lakewarden.formats.avro import AvroFile, Record
from lakewarden.formats.iceberg.manifests.files import DATA, DELETED, read_manifest
from lakewarden.formats.iceberg.partitions.specs import key_of
from lakewarden.model.ports import Files

POSITIONS = 1  # the content of a file that says which rows of others are deleted


def leaves_rows(files: Files, manifests: AvroFile, going: Collection[bytes], rows_going: int) -> bool:
    """Whether the snapshot of these manifests has rows outside of the partitions that go, which hold `rows_going` rows.

    Deleted positions are taken off as for a plan. Rows that are deleted by their values cannot be counted, and count as left.
    """
    rows: dict[bool, list[int | None]] = {True: [], False: []}
    for row in manifests.records:
        rows[row.get("content", DATA) == DATA].append(_live_rows(row))
    # The list counts positions and values together: there are at most so many deleted positions.
    known = {data: sum(count or 0 for count in counts) for data, counts in rows.items() if None not in counts}
    if len(known) == len(rows) and known[True] - rows_going > known[False]:
        return True
    return _counted(files, manifests, going)


def rows_of(file: Mapping[str, Any]) -> int:
    """How many records a file has. Imports of old versions wrote -1 where they did not count; such a file is not empty."""
    count = int(file["record_count"])
    return count if count >= 0 else 1


def _live_rows(row: Record) -> int | None:
    added, existing = row.get("added_rows_count"), row.get("existing_rows_count")
    return None if added is None or existing is None else int(added) + int(existing)


def _counted(files: Files, manifests: AvroFile, going: Collection[bytes]) -> bool:
    """The same by opening every manifest, partition by partition: what is deleted of one leaves the others as they are."""
    left: dict[bytes, int] = {}
    for row in manifests.records:
        spec = int(row["partition_spec_id"])
        for entry in read_manifest(files, row).records:
            file = entry["data_file"]
            key = key_of(spec, file["partition"])
            content = file.get("content") or DATA
            if entry["status"] == DELETED or key in going or content not in (DATA, POSITIONS):
                continue
            left[key] = left.get(key, 0) + (rows_of(file) if content == DATA else -rows_of(file))
    return any(count > 0 for count in left.values())
