"""One table's metadata that nobody can read refuses that table, in little time and memory, and no other."""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from lakewarden.formats.iceberg.format import open_format
from lakewarden.formats.iceberg.metadata.document import table_state
from lakewarden.formats.iceberg.metadata.recent import recent_states
from lakewarden.model.table import TableState
from lakewarden.storage.stores import Stores
from tests.foreign.bounds import within
from tests.formats.iceberg.documents import BASE, at, document, snapshot
from tests.support.lakes import local_path, small_lake

Change = Callable[[dict[str, Any]], Any]


def put(key: str, value: Any) -> Change:
    return lambda found: found.update({key: value})


def put_in_snapshot(key: str, value: Any) -> Change:
    return lambda found: found["snapshots"][0].update({key: value})


# What somebody, or a damaged disk, may have written, and the refusal it must have; None: it is understood.
DOCUMENTS: dict[str, tuple[Change, str | None]] = {
    "a last number of 10¹²": (put("last-sequence-number", 10**12), None),
    "a last number of 2⁶³-1": (put("last-sequence-number", 2**63 - 1), None),
    "a last number behind": (put("last-sequence-number", 1), "LW-TABLE-012"),
    "no last number": (lambda found: found.pop("last-sequence-number"), "LW-TABLE-012"),
    "a last number of text": (put("last-sequence-number", "9"), "LW-TABLE-001"),
    "a last number of 30 digits": (put("last-sequence-number", 10**30), "LW-TABLE-010"),
    "infinity": (put("last-updated-ms", float("inf")), "LW-TABLE-010"),
    "not a number": (put("last-updated-ms", float("nan")), "LW-TABLE-010"),
    "a moment without a date": (put("last-updated-ms", 2**62), "LW-TABLE-001"),
    "a fraction of a moment": (put("last-updated-ms", 1e300), "LW-TABLE-001"),
    "half a character": (put("future", "\ud800"), "LW-TABLE-010"),
    "a NUL in a property": (lambda found: found["properties"].update({"a": "\0"}), "LW-TABLE-010"),
    "deep nesting": (put("future", json.loads("[" * 300 + "]" * 300)), "LW-TABLE-010"),
    "no location": (lambda found: found.pop("location"), "LW-TABLE-001"),
    "a location of numbers": (put("location", 5), "LW-TABLE-001"),
    "a property path of numbers": (lambda found: found["properties"].update({"write.data.path": 7}), "LW-TABLE-001"),
    "an id of text": (put_in_snapshot("snapshot-id", "1"), "LW-TABLE-001"),
    "an id that is true": (put_in_snapshot("snapshot-id", True), "LW-TABLE-001"),
    "an id of a fraction": (put_in_snapshot("snapshot-id", 1.5), "LW-TABLE-001"),
    "a parent of text": (put_in_snapshot("parent-snapshot-id", "none"), "LW-TABLE-001"),
    "a snapshot of no date": (put_in_snapshot("timestamp-ms", 2**60), "LW-TABLE-001"),
    "a total of 30 digits": (put_in_snapshot("summary", {"total-data-files": "9" * 30}), "LW-TABLE-001"),
    "a total of words": (put_in_snapshot("summary", {"total-data-files": "many"}), "LW-TABLE-001"),
    "a summary of words": (put_in_snapshot("summary", "append"), "LW-TABLE-001"),
    "a snapshot less": (lambda found: found["snapshots"].pop(), "LW-TABLE-012"),
    "no snapshots": (lambda found: found.pop("snapshots"), "LW-TABLE-012"),
    "no snapshot at all": (put("snapshots", []), "LW-TABLE-012"),
    "a snapshot twice": (lambda found: found["snapshots"].append(found["snapshots"][0]), "LW-TABLE-012"),
    "refs of text": (put("refs", "main"), "LW-TABLE-001"),
    "a ref of a list": (put("refs", {"main": []}), "LW-TABLE-001"),
    "a log of text": (put("metadata-log", "none"), "LW-TABLE-001"),
    "snapshots of text": (put("snapshots", "none"), "LW-TABLE-001"),
    "snapshots of objects": (put("snapshots", {"1": {}}), "LW-TABLE-001"),
}


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path, bytes]:
    """A real catalog of two tables, and the metadata file of the first, which tests write anew."""
    made = small_lake(tmp_path_factory.mktemp("poisoned"), ("sales.orders", "sales.items"))
    catalog = made.catalog()
    path = local_path(catalog.load_table("sales.orders").metadata_location)
    catalog.close()
    found = open_format("lake", made.properties, Stores(), lambda place, properties: None)
    return found, path, path.read_bytes()


def loaded(lake: tuple[Any, Path, bytes], data: bytes) -> TableState:
    """The first table as it is loaded with those bytes, within bounds; the other one is never harmed."""
    found, path, _ = lake
    path.write_bytes(data)
    with within(10, 300):
        states = {p.identifier: found.load(p, datetime.fromtimestamp(0, UTC)) for p in found.pointers()}
    assert states["lake.sales.items"].refusal is None
    assert states["lake.sales.orders"].roots
    return states["lake.sales.orders"]


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("case", DOCUMENTS)
def test_a_poisoned_document_refuses_its_own_table(lake: tuple[Any, Path, bytes], case: str, packed: bool) -> None:
    change, expected = DOCUMENTS[case]
    found = json.loads(lake[2])
    change(found)
    data = json.dumps(found).encode()
    state = loaded(lake, gzip.compress(data) if packed else data)
    assert (state.refusal.code if state.refusal else None) == expected, state.refusal


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (gzip.compress(b" " * (300 << 20)), "LW-TABLE-010"),
        (b"[" * 1_000_000, "LW-TABLE-010"),
        (b"", "LW-TABLE-001"),
        (b"\0" * 5_000_000, "LW-TABLE-001"),
        (b'{"format-version": 2, "format-version": 3}', "LW-TABLE-010"),
        (b'{"a": ' + b"9" * 1_000_000 + b"}", "LW-TABLE-010"),
    ],
)
def test_poisoned_bytes_refuse_their_own_table(lake: tuple[Any, Path, bytes], data: bytes, expected: str) -> None:
    refusal = loaded(lake, data).refusal
    assert refusal is not None
    assert refusal.code == expected


def test_a_table_whose_ref_lost_its_snapshot_still_says_what_the_others_reach() -> None:
    found = document(1, 2, 3)
    found["snapshots"] = [snapshot(1), snapshot(2)]
    state = table_state("lake.t", at(9), found)
    assert state.refusal is not None
    assert state.refusal.code == "LW-TABLE-012"
    assert "3" in state.refusal.message
    assert len(state.manifest_lists) == 2


def test_a_snapshot_that_only_the_log_remembers_was_lost() -> None:
    """Whoever expires snapshots trims the log up to them; a log that still names one tells of damage."""
    found = document(1, 3, snapshot_log=[{"snapshot-id": n, "timestamp-ms": n * 1000} for n in (1, 2, 3)])
    refusal = table_state("lake.t", at(9), found).refusal
    assert refusal is not None
    assert (refusal.code, "snapshot-log" in refusal.message) == ("LW-TABLE-012", True)


def test_a_last_number_of_any_size_is_compared_and_not_counted_up_to() -> None:
    current = document(1, 2, last_sequence_number=10**15)
    current["metadata-log"] = current["metadata-log"][-1:]
    read: list[str] = []
    state = table_state("lake.t", at(9), current)

    def earlier(uri: str) -> bytes:
        read.append(uri)
        return json.dumps(document(1)).encode()

    with within(5, 10):
        recent_states(state, current, earlier, datetime.fromtimestamp(0, UTC))
    assert read == [at(1)]


def test_roots_of_a_garbled_table_stay_known() -> None:
    """Another field makes no sense: the directories that do are still this table's."""
    found = document(1, format_version="two", properties={"write.data.path": "s3://d/1"})
    assert set(table_state("lake.t", at(9), found).roots) == {BASE, "s3://d/1"}


GC_OFF = [
    "0",
    "no",
    "off",
    "f",
    " false",
    "",
    " true",
    "true ",
    "yes",
    "1",
    "t",
    True,
    False,
    0,
    1,
    None,
]


@pytest.mark.parametrize("value", GC_OFF)
def test_anything_but_true_is_no_leave_to_clean(value: Any) -> None:
    refusal = table_state("lake.t", at(9), document(1, properties={"gc.enabled": value})).refusal
    assert refusal is not None
    assert refusal.code == "LW-TABLE-004"
    assert f"gc.enabled={value!r}, which is not true" in refusal.message


@pytest.mark.parametrize("value", ["true", "True", "TRUE"])
def test_true_in_any_case_is_leave_to_clean(value: str) -> None:
    assert table_state("lake.t", at(9), document(1, properties={"gc.enabled": value})).refusal is None


def test_a_table_carries_the_digest_of_its_metadata_file(lake: tuple[Any, Path, bytes]) -> None:
    """The same name with other bytes is another state, also when only a space came in."""
    first = loaded(lake, lake[2])
    assert first.digest == hashlib.sha256(lake[2]).hexdigest()
    again = loaded(lake, lake[2] + b" ")
    assert again.metadata_location == first.metadata_location
    assert again.digest == hashlib.sha256(lake[2] + b" ").hexdigest()
