"""A metadata document without some of its snapshots: what goes with them, and what stays as it was."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest

from lakewarden.formats.iceberg.commit.next_document import dumps, next_location, without

HERE = "file:///lake/t/metadata/00007-a.metadata.json"


def document(**more: Any) -> dict[str, Any]:
    return {
        "format-version": 2,
        "location": "file:///lake/t/",
        "last-updated-ms": 1000,
        "current-snapshot-id": 4,
        "snapshots": [{"snapshot-id": number} for number in (1, 2, 3, 4)],
        "snapshot-log": [{"snapshot-id": number, "timestamp-ms": number} for number in (1, 2, 3, 4)],
        "metadata-log": [{"timestamp-ms": 900, "metadata-file": "before"}],
        "refs": {"main": {"snapshot-id": 4, "type": "branch"}, "old": {"snapshot-id": 2, "type": "tag"}},
        "properties": {},
        **more,
    }


def after(given: dict[str, Any], *snapshots: int, refs: tuple[str, ...] = (), now: int = 2000) -> dict[str, Any]:
    return without(given, HERE, snapshots, refs, now)


def test_snapshots_and_refs_go_and_the_rest_stays() -> None:
    given = document(later={"a": [1]})
    found = after(given, 1, 2, refs=("old",))
    assert [s["snapshot-id"] for s in found["snapshots"]] == [3, 4]
    assert found["refs"] == {"main": given["refs"]["main"]}
    assert found["later"] == {"a": [1]}
    assert found["current-snapshot-id"] == 4
    assert given == document(later={"a": [1]}), "the one that was given is left as it was"


def test_the_log_of_snapshots_begins_behind_its_last_gap() -> None:
    """A question for the state at instant 2 would get that of instant 1 otherwise."""
    assert [entry["snapshot-id"] for entry in after(document(), 2)["snapshot-log"]] == [3, 4]
    assert [entry["snapshot-id"] for entry in after(document(), 1)["snapshot-log"]] == [2, 3, 4]


def test_statistics_go_with_their_snapshot() -> None:
    stats = [{"snapshot-id": number, "statistics-path": f"s{number}"} for number in (1, 4)]
    found = after(document(statistics=stats, **{"partition-statistics": stats}), 1)
    assert found["statistics"] == found["partition-statistics"] == [stats[1]]


@pytest.mark.parametrize(
    ("most", "left"), [(None, ["before", HERE]), ("2", ["before", HERE]), ("1", [HERE]), ("0", [HERE])]
)
def test_the_log_of_metadata_is_as_long_as_the_table_wants_it(most: str | None, left: list[str]) -> None:
    properties = {} if most is None else {"write.metadata.previous-versions-max": most}
    found = after(document(properties=properties), 1)
    assert [entry["metadata-file"] for entry in found["metadata-log"]] == left
    assert found["metadata-log"][-1]["timestamp-ms"] == 1000


def test_time_does_not_run_backwards() -> None:
    assert after(document(), 1, now=2000)["last-updated-ms"] == 2000
    assert after(document(), 1, now=500)["last-updated-ms"] == 1000


def test_tables_of_version_one_without_refs_get_none() -> None:
    given = document()
    del given["refs"]
    assert "refs" not in after(given, 1)


def test_where_the_next_one_goes() -> None:
    assert next_location(document(), HERE, "u") == "file:///lake/t/metadata/00008-u.metadata.json"
    named = document(properties={"write.metadata.path": "s3://b/m/"})
    assert next_location(named, HERE, "u") == "s3://b/m/00008-u.metadata.json"
    assert next_location(document(), "file:///lake/t/metadata/v3.metadata.json", "u").endswith("/00002-u.metadata.json")
    zipped = document(properties={"write.metadata.compression-codec": "gzip"})
    assert next_location(zipped, HERE, "u").endswith("/00008-u.gz.metadata.json")


def test_the_bytes_are_as_the_name_says() -> None:
    plain, zipped = document(), document(properties={"write.metadata.compression-codec": "GZIP", "n": "ü"})
    assert json.loads(dumps(plain)) == plain
    assert json.loads(gzip.decompress(dumps(zipped))) == zipped
