"""Snapshots that an expiry dropped within the grace period still protect what they reach."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from lakewarden.formats.iceberg.metadata.document import table_state
from lakewarden.formats.iceberg.metadata.recent import recent_states
from lakewarden.model.errors import UnreadableMetadataError
from tests.formats.iceberg.documents import BASE, at, document, snapshot


class Files(dict[str, bytes]):
    """Stored documents by address; counts what is read."""

    def __init__(self, documents: dict[int, dict[str, Any]]) -> None:
        super().__init__({at(number): json.dumps(found).encode() for number, found in documents.items()})
        self.reads: list[str] = []

    def read(self, uri: str) -> bytes:
        self.reads.append(uri)
        if uri not in self:
            raise FileNotFoundError(uri)
        return self[uri]


def soft(current: dict[str, Any], files: Files, since_second: int) -> set[str]:
    """The manifest lists that recent states protect; all are soft."""
    state = table_state("lake.t", at(9), current)
    assert state.refusal is None
    lists, named = recent_states(state, current, files.read, datetime.fromtimestamp(since_second, UTC))
    assert all(item.soft for item in lists)
    assert {item.uri for item in lists} <= {file.uri for file in named}
    return {item.uri.removeprefix(f"{BASE}/metadata/") for item in lists}


def history(*numbers: int) -> Files:
    """Metadata files that each knew every snapshot up to their own."""
    return Files({n: document(*range(1, n + 1)) for n in numbers})


def test_what_was_current_since_the_cutoff_protects_and_what_was_not_does_not() -> None:
    """The log says when each file was replaced: the state of second 1 was current until second 2."""
    current = document(3)
    assert soft(current, history(0, 1, 2), 0) == {"snap-1.avro", "snap-2.avro"}
    assert soft(current, history(0, 1, 2), 3) == {"snap-1.avro", "snap-2.avro"}
    assert soft(current, history(0, 1, 2), 4) == set()


def test_a_state_counts_until_it_was_replaced_not_from_when_it_came() -> None:
    """Snapshot 1 was there for long, and dropped by the commit of second 90."""
    current = document(2, last_updated_ms=90_000, last_sequence_number=2)
    current["metadata-log"] = [{"metadata-file": at(2), "timestamp-ms": 2000}]
    assert soft(current, history(2), 80) == {"snap-1.avro"}
    assert soft(current, history(2), 91) == set()


def test_a_table_that_never_dropped_anything_reads_nothing() -> None:
    files = history(1, 2)
    assert soft(document(1, 2, 3), files, 0) == set()
    assert files.reads == []


def test_only_the_oldest_recent_state_is_read_if_nothing_was_dropped_since() -> None:
    files = history(*range(9))
    assert soft(document(*range(3, 10)), files, 8) == {"snap-1.avro", "snap-2.avro"}
    assert files.reads == [at(7)]


def test_a_snapshot_made_and_dropped_between_two_kept_states_is_found() -> None:
    files = history(*range(6))
    assert soft(document(1, 2, 3, 5, 6, last_sequence_number=6), files, 0) == {"snap-4.avro"}


def test_snapshots_of_version_1_have_no_number_that_could_hide_a_dropped_one() -> None:
    """Numbers {0, 1, 3} are as many as the last one says, and yet snapshot 2 was dropped."""
    old = snapshot(100, **{"sequence-number": 0, "parent-snapshot-id": None})
    current = document(1, 3)
    current["snapshots"].append(old)
    assert soft(current, history(0, 1, 2), 0) == {"snap-2.avro"}


def test_a_dropped_snapshot_of_version_1_is_missed_by_its_child() -> None:
    earlier = document(1, version=1, current_snapshot_id=100, refs={})
    earlier["snapshots"] = [snapshot(100, **{"sequence-number": 0})]
    current = document(1)
    current["snapshots"][0]["parent-snapshot-id"] = 100
    assert soft(current, Files({0: earlier}), 0) == {"snap-100.avro"}


def test_statistics_of_recent_states_are_kept() -> None:
    earlier = document(1, statistics=[{"statistics-path": f"{BASE}/old.stats"}])
    state = table_state("lake.t", at(9), document(2))
    _, files = recent_states(state, document(2), Files({0: earlier, 1: earlier}).read, datetime.fromtimestamp(0, UTC))
    assert f"{BASE}/old.stats" in {file.uri for file in files}


def test_a_state_that_was_trimmed_protects_nothing_and_one_that_is_damaged_refuses() -> None:
    files = history(0, 2)
    assert soft(document(3), files, 0) == {"snap-1.avro", "snap-2.avro"}
    files[at(2)] = b"{"
    with pytest.raises(UnreadableMetadataError):
        soft(document(3), files, 0)
