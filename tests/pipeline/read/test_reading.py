"""Lists and manifests of a real table, read as tasks read them: whole, or a note that refuses the table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.table import Table

from lakewarden.formats.iceberg.manifests.reader import IcebergReader
from lakewarden.model.uri import canonical
from lakewarden.pipeline import columns as c
from lakewarden.pipeline.read.manifests import ReadTask, read_lists, read_manifests
from lakewarden.storage.stores import Stores
from tests.support.lakes import Lake, local_path, small_lake, write_table

TASK = ReadTask(Stores(), {"iceberg": IcebergReader()})


@pytest.fixture
def table(tmp_path: Path) -> Table:
    lake: Lake = small_lake(tmp_path, ())
    catalog = lake.catalog()
    catalog.create_namespace("n")
    made = write_table(catalog, "n.t", appends=3, delete=True)
    catalog.close()
    return made


def lists_of(table: Table, **changes: Any) -> list[dict[str, Any]]:
    rows = []
    for number, snapshot in enumerate(table.metadata.snapshots):
        summary = snapshot.summary.additional_properties if snapshot.summary else {}
        row = {
            c.TABLE: 3, "format": "iceberg", "uri": snapshot.manifest_list, "soft": False,
            "data_files": int(summary["total-data-files"]), "delete_files": int(summary["total-delete-files"]),
        }  # fmt: skip
        rows.append(row | {"number": number} | changes)
    return [{name: row.get(name) for name in c.LISTS.names} for row in rows]


def read(rows: list[dict[str, Any]]) -> tuple[set[str], list[dict[str, Any]]]:
    """Keys that the lists reach, and the notes."""
    keys, notes = set(), []
    listed = pa.Table.from_pylist(rows, schema=c.LISTS)
    for batch in read_manifests(TASK)(read_lists(TASK)(listed.to_batches())):
        for row in batch.to_pylist():
            if row[c.MARK] == c.MARK_NOTE:
                notes.append(json.loads(row[c.KEY][1:]))
            else:
                assert row[c.TABLE] == 3
                keys.add(row[c.KEY])
    return keys, notes


def expected(table: Table) -> set[str]:
    """What PyIceberg itself finds reachable below the lists."""
    found = {canonical(path) for path in table.inspect.all_files()["file_path"].to_pylist()}
    return found | {canonical(path) for path in table.inspect.all_manifests()["path"].to_pylist()}


def test_every_manifest_and_every_live_file_is_reached_and_no_dead_one(table: Table) -> None:
    keys, notes = read(lists_of(table))
    assert notes == []
    assert keys == expected(table)
    last, _ = read(lists_of(table)[-1:])
    assert last < keys, "what the last snapshot deleted is not live in it"


def test_a_list_that_is_gone_is_an_error_unless_it_is_soft(table: Table) -> None:
    local_path(lists_of(table)[0]["uri"]).unlink()
    _, notes = read(lists_of(table))
    assert [note["table"] for note in notes] == [3]
    keys, notes = read(lists_of(table, soft=True))
    assert notes == []
    assert keys


def test_a_manifest_that_is_gone_is_an_error_unless_only_soft_lists_name_it(table: Table) -> None:
    gone = sorted(expected(table), key=lambda key: key.endswith(".avro"))[-1]
    local_path(gone).unlink()
    assert read(lists_of(table))[1]
    keys, notes = read(lists_of(table, soft=True))
    assert notes == []
    assert gone not in keys


def test_a_damaged_soft_manifest_is_an_error_too(table: Table) -> None:
    """What it protected cannot be known; what is gone protects nothing."""
    path = local_path(next(key for key in sorted(expected(table)) if key.endswith("-m0.avro")))
    path.write_bytes(path.read_bytes()[:-1])
    assert {note["error"] for note in read(lists_of(table, soft=True))[1]} == {"LW-TABLE-002"}


@pytest.mark.parametrize("column", ["data_files", "delete_files"])
def test_a_list_that_names_fewer_files_than_its_snapshot_has_is_an_error(table: Table, column: str) -> None:
    rows = lists_of(table)
    rows[0][column] += 1
    keys, notes = read(rows)
    assert len(notes) == 1
    assert "summary says" in notes[0]["message"]
    assert keys, "the other lists were read"


@pytest.mark.parametrize(("column", "says"), [("rows", "entries"), ("live", "live entries"), ("length", "bytes")])
def test_a_manifest_that_does_not_hold_what_its_list_says_is_an_error(table: Table, column: str, says: str) -> None:
    listed = pa.Table.from_pylist(lists_of(table)[-1:], schema=c.LISTS)
    manifests = [row for batch in read_lists(TASK)(iter(listed.to_batches())) for row in batch.to_pylist()]
    assert manifests
    assert all(row["rows"] is not None and row["length"] for row in manifests)
    manifests[0][column] += 1
    wrong = pa.Table.from_pylist(manifests, schema=c.MANIFESTS)
    found = [row for batch in read_manifests(TASK)(iter(wrong.to_batches())) for row in batch.to_pylist()]
    notes = [json.loads(row[c.KEY][1:]) for row in found if row[c.MARK] == c.MARK_NOTE]
    assert len(notes) == 1
    assert says in notes[0]["message"]
    assert manifests[0]["path"] not in {row[c.KEY] for row in found}


def test_notes_of_lists_pass_through_to_the_driver(table: Table) -> None:
    rows = lists_of(table)
    for row in rows:
        local_path(row["uri"]).write_bytes(b"")
    keys, notes = read(rows)
    assert not keys
    assert len(notes) == len(rows)
