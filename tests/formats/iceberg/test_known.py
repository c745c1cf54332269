"""An Iceberg catalog is opened once, and a metadata file parsed once as long as its bytes are the same."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import sleep
from typing import Any

import pytest

from lakewarden.formats.iceberg import open_format
from lakewarden.formats.iceberg.catalog import connection
from lakewarden.formats.iceberg.metadata import known
from lakewarden.formats.iceberg.metadata.known import KnownVersions
from lakewarden.storage.stores import Stores
from tests.formats.iceberg.documents import document
from tests.support.policies import expiry_policy, manifest_policy, partition_policy

NOW = datetime.now(UTC)


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The addresses of the documents that are parsed."""
    found: list[str] = []
    real = known.parse

    def parse(raw: bytes, uri: str) -> Any:
        found.append(uri)
        return real(raw, uri)

    monkeypatch.setattr(known, "parse", parse)
    return found


def test_every_part_asks_one_connection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, parsed: list[str]) -> None:
    from pyiceberg.catalog.sql import SqlCatalog

    from tests.support.lakes import write_table

    properties = {"type": "sql", "uri": f"sqlite:///{tmp_path}/c.db", "warehouse": f"file://{tmp_path}/wh"}
    catalog = SqlCatalog("lake", **properties)
    catalog.create_namespace("db")
    write_table(catalog, "db.t")
    opened = []
    real = connection.connect

    def connect(*how: Any) -> Any:
        opened.append(how)
        sleep(0.1)  # long enough for the other threads to ask
        return real(*how)

    monkeypatch.setattr(connection, "connect", connect)
    iceberg = open_format("lake", properties, Stores(), lambda *_: None)
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: iceberg.pointers(), range(8)))
    (pointer,) = answers[0]
    assert not opened[1:]
    state = iceberg.load(pointer, NOW)
    assert iceberg.expirer is not None
    assert iceberg.expirer.survey(state, expiry_policy(), NOW).refusal is None
    assert iceberg.partition_expirer is not None
    assert iceberg.partition_expirer.latest(state, partition_policy(expiration=timedelta(days=1))) is not None
    assert iceberg.manifest_rewriter is not None
    assert iceberg.manifest_rewriter.survey(state, manifest_policy()).refusal is None
    assert iceberg.relocator is not None
    assert iceberg.relocator.new_location("lake.db.other")
    assert not opened[1:]
    assert parsed == [pointer.metadata_location]


def test_a_name_that_is_used_again_is_parsed_again(tmp_path: Path, parsed: list[str]) -> None:
    place = tmp_path / "v1.metadata.json"
    uri = f"file://{place}"
    place.write_text(json.dumps(document(**{"table-uuid": "one"})))
    versions = KnownVersions(Stores())
    first = versions.fresh(uri)
    assert versions.fresh(uri) is versions.loaded(uri) is first
    place.write_text(json.dumps(document(**{"table-uuid": "two"})))
    assert versions.loaded(uri) is first, "as it was when the table was loaded"
    assert versions.fresh(uri).document["table-uuid"] == "two"
    assert versions.loaded(uri).document["table-uuid"] == "two"
    assert len(parsed) == 2


def test_no_more_is_remembered_than_the_bound(tmp_path: Path, parsed: list[str]) -> None:
    raw = json.dumps(document()).encode()
    places = [tmp_path / f"{n}.metadata.json" for n in range(3)]
    versions = KnownVersions(Stores(), most_bytes=2 * len(raw))
    for place in places:
        place.write_bytes(raw)
        versions.fresh(f"file://{place}")
    for place in reversed(places):
        versions.loaded(f"file://{place}")
    assert parsed[3:] == [f"file://{places[0]}"]


def test_of_a_table_that_is_committed_to_all_day_a_few_versions_are_remembered(
    tmp_path: Path, parsed: list[str]
) -> None:
    versions, busy = (
        KnownVersions(Stores()),
        [tmp_path / f"{n}.metadata.json" for n in range(known.MOST_OF_A_TABLE + 1)],
    )
    quiet = tmp_path / "quiet.metadata.json"
    quiet.write_text(json.dumps(document(**{"table-uuid": "quiet"})))
    versions.fresh(f"file://{quiet}")
    for place in busy:
        place.write_text(json.dumps(document(**{"table-uuid": "busy"})))
        versions.fresh(f"file://{place}")
    del parsed[:]
    for place in (quiet, *busy[1:]):
        versions.loaded(f"file://{place}")
    assert parsed == []
    versions.loaded(f"file://{busy[0]}")
    assert parsed == [f"file://{busy[0]}"]
