"""Whose a metadata file is that the current metadata does not name."""

from __future__ import annotations

import gzip
import json
from datetime import UTC, datetime
from typing import Any

import pytest

from lakewarden.formats.iceberg.metadata.document import table_state
from lakewarden.formats.iceberg.metadata.strangers import Recogniser, Standing, recognise
from lakewarden.model.errors import StoreUnavailableError
from tests.formats.iceberg.documents import BASE, UUID, at, document, snapshot

FILE = f"{BASE}/metadata/stranger.metadata.json"
LOST = f"{BASE}/metadata/snap-77.avro"


class OneFile:
    """A store with one object, or one fault."""

    def __init__(self, data: bytes | Exception) -> None:
        self.data = data

    def get(self, uri: str) -> bytes:
        if isinstance(self.data, Exception):
            raise self.data
        return self.data

    def get_range(self, uri: str, start: int, length: int) -> bytes:
        return self.get(uri)[start : start + length]


def recogniser(since_second: int = 0, abandoned: tuple[str, ...] = ()) -> Recogniser:
    """Knows one table: snapshots 5 to 8, a log from second 5 on."""
    current = document(5, 6, 7, 8)
    current["metadata-log"] = current["metadata-log"][5:]
    return Recogniser.of([table_state("lake.t", at(8), current)], datetime.fromtimestamp(since_second, UTC), abandoned)


def standing(found: dict[str, Any], since_second: int = 4, packed: bool = False) -> tuple[Standing, set[str]]:
    data = json.dumps(found).encode()
    stranger = recognise(FILE, recogniser(since_second).fleet, OneFile(gzip.compress(data) if packed else data))
    return stranger.standing, {item.uri for item in stranger.lists}


@pytest.mark.parametrize("packed", [False, True])
def test_an_old_version_that_the_log_has_dropped_is_an_ancestor(packed: bool) -> None:
    assert standing(document(1, 2), packed=packed) == (Standing.ANCESTOR, set())


def test_an_ancestor_of_the_grace_period_protects_what_it_reached() -> None:
    found = standing(document(2, 3), since_second=2)
    assert found == (Standing.ANCESTOR, {f"{BASE}/metadata/snap-2.avro", f"{BASE}/metadata/snap-3.avro"})


def test_a_failed_commit_without_a_snapshot_of_its_own_is_a_leftover() -> None:
    found = document(5, 6, 7, last_updated_ms=7500)
    assert standing(found) == (Standing.LEFTOVER, set())


@pytest.mark.parametrize("packed", [False, True])
def test_a_commit_that_our_history_never_had_is_a_rival_and_protects_its_list(packed: bool) -> None:
    found = document(5, 6, 7, last_updated_ms=7500)
    found["snapshots"].append(snapshot(77, **{"timestamp-ms": 7500}))
    assert standing(found, packed=packed) == (Standing.RIVAL, {LOST})


def test_a_commit_on_top_of_a_rival_is_a_fork() -> None:
    found = document(5, 6, 7, last_updated_ms=7600)
    found["metadata-log"].append({"metadata-file": FILE, "timestamp-ms": 7500})
    found["snapshots"].append(snapshot(77, **{"timestamp-ms": 7500}))
    assert standing(found) == (Standing.FORK, {LOST})


def test_the_log_may_spell_the_same_file_in_another_way() -> None:
    found = document(5, 6, 7, last_updated_ms=7500)
    found["metadata-log"][-1]["metadata-file"] = at(6).replace("s3://", "s3a://")
    assert standing(found)[0] is Standing.LEFTOVER


@pytest.mark.parametrize("packed", [False, True])
def test_another_uuid_is_foreign_whatever_its_age(packed: bool) -> None:
    assert standing(document(1, table_uuid="other"), packed=packed)[0] is Standing.FOREIGN
    assert standing(document(99, table_uuid="other"), packed=packed)[0] is Standing.FOREIGN


@pytest.mark.parametrize("data", [b"", b"not json", b"[]", b"{}", b"\x1f\x8bxxxx", b'{"format-version": 2'])
def test_what_names_no_table_is_nameless(data: bytes) -> None:
    assert recognise(FILE, recogniser().fleet, OneFile(data)).standing is Standing.NAMELESS


def test_a_cut_document_of_another_table_is_still_foreign() -> None:
    text = json.dumps(document(1, table_uuid="other")).encode()
    assert recognise(FILE, recogniser().fleet, OneFile(text[: len(text) // 2])).standing is Standing.FOREIGN


def test_the_finding_carries_what_the_driver_needs_and_old_versions_carry_nothing() -> None:
    found = document(5, 6, 7, last_updated_ms=7500)
    found["snapshots"].append(snapshot(77, **{"timestamp-ms": 7500}))
    told = recogniser(4)(FILE, "lake.t", OneFile(json.dumps(found).encode()))
    assert told == {
        "standing": "rival", "uuid": UUID, "lists": [LOST], "totals": [(77, 0)], "format": "iceberg",
    }  # fmt: skip
    assert recogniser(6)(FILE, "lake.t", OneFile(json.dumps(document(1)).encode())) is None


def test_an_abandoned_table_is_nobodys() -> None:
    foreign = json.dumps(document(1, table_uuid="other")).encode()
    told = recogniser()(FILE, "lake.t", OneFile(foreign))
    assert told is not None
    assert told["standing"] == "foreign"
    assert recogniser(abandoned=("other",))(FILE, "lake.t", OneFile(foreign)) is None


def test_a_file_that_went_meanwhile_is_no_finding_and_one_that_cannot_be_read_is() -> None:
    assert recogniser()(FILE, "lake.t", OneFile(FileNotFoundError())) is None
    told = recogniser()(FILE, "lake.t", OneFile(StoreUnavailableError("denied")))
    assert told is not None
    assert told["standing"] == "unreadable"


@pytest.mark.parametrize(
    "changes",
    [
        {"snapshots": [{"manifest-list": "x"}]},
        {"snapshots": 5},
        {"format_version": 4},
        {"format_version": None},
        {"metadata_log": "none"},
        {"last_sequence_number": 10**30},
        {"snapshots": [snapshot(77, **{"snapshot-id": "77"})]},
    ],
)
def test_metadata_with_our_uuid_that_makes_no_sense_may_need_anything(changes: dict[str, Any]) -> None:
    """A newer version of the format, for all we know: its root is left alone."""
    garbled = document(5, 6, 7, last_updated_ms=9_000, **changes)
    told = recogniser()(FILE, "lake.t", OneFile(json.dumps(garbled).encode()))
    assert told is not None
    assert told["standing"] == "unreadable"
    assert told["why"]


def test_of_old_versions_the_newest_was_current_at_the_cutoff_if_the_log_does_not_reach_back() -> None:
    """The log begins at second 5. With the cut-off at 4, the state before it is still somebody's."""
    old = OneFile(json.dumps(document(1, 2, 3)).encode())
    told = recogniser(4)(FILE, "lake.t", old)
    assert told is not None
    assert (told["standing"], told["rank"], told["lists"]) == ("ancestor", 3000, [])
    asked = recogniser(4)(FILE, "lake.t", old, whole=True)
    assert asked is not None
    assert len(asked["lists"]) == 3  # type: ignore[arg-type]
    assert recogniser(6)(FILE, "lake.t", old) is None
    within = recogniser(2)(FILE, "lake.t", OneFile(json.dumps(document(3, last_updated_ms=3000)).encode()))
    assert within is not None
    assert "rank" not in within, "it was made after the cut-off: not the one before"
