"""Small metadata documents, as the specification has them."""

from __future__ import annotations

from typing import Any

UUID = "11111111-2222-3333-4444-555555555555"
BASE = "s3://b/wh/t"


def snapshot(number: int, **changes: Any) -> dict[str, Any]:
    """A snapshot whose id, sequence number and second are all that number."""
    found = {
        "snapshot-id": number,
        "sequence-number": number,
        "timestamp-ms": number * 1000,
        "manifest-list": f"{BASE}/metadata/snap-{number}.avro",
        "summary": {"operation": "append", "total-data-files": str(number), "total-delete-files": "0"},
    }
    if number > 1:
        found["parent-snapshot-id"] = number - 1
    return {**found, **changes}


def document(*numbers: int, version: int = 2, **changes: Any) -> dict[str, Any]:
    """A table with those snapshots, its log naming one metadata file a snapshot but the last."""
    last = max(numbers, default=0)
    found = {
        "format-version": version,
        "table-uuid": UUID,
        "location": BASE,
        "last-sequence-number": last,
        "last-updated-ms": last * 1000,
        "current-snapshot-id": last or -1,
        "properties": {},
        "snapshots": [snapshot(number) for number in numbers],
        "refs": {"main": {"snapshot-id": last, "type": "branch"}} if numbers else {},
        "metadata-log": [{"metadata-file": at(n), "timestamp-ms": n * 1000} for n in range(last)],
    }
    return {**found, **{name.replace("_", "-"): value for name, value in changes.items()}}


def at(number: int) -> str:
    """The address of the metadata file that made that snapshot."""
    return f"{BASE}/metadata/{number:05d}-x.metadata.json"
