"""What planning is told of a table: which commits make the partitions hot that they wrote to."""

from __future__ import annotations

from lakewarden.formats.iceberg.compaction.compactor import _written


def test_a_commit_that_only_replaces_files_brings_no_rows() -> None:
    snapshots = [
        {"snapshot-id": 1, "timestamp-ms": 10, "summary": {"operation": "append"}},
        {"snapshot-id": 2, "timestamp-ms": 20, "summary": {"operation": "replace"}},
        {"snapshot-id": 3, "timestamp-ms": 30},
    ]
    assert _written({"snapshots": snapshots}) == {1: 10, 3: 30}
