"""Dropping partitions under other writers' hands, twice, and of tables nobody should touch. No Spark: PyIceberg writes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.expressions import EqualTo
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.update import SetSnapshotRefUpdate
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DateType, LongType, NestedField

from lakewarden.formats.avro import AvroFile, write_avro
from lakewarden.formats.iceberg import open_format
from lakewarden.formats.iceberg.commit.versions import SqlVersions, Version
from lakewarden.formats.iceberg.partitions.choice import expirable_partitions
from lakewarden.formats.iceberg.partitions.rest import leaves_rows
from lakewarden.formats.iceberg.partitions.specs import Field, Spec
from lakewarden.model.brakes import CODES
from lakewarden.model.errors import CatalogUnavailableError, CommitConflictError, ConfigError, PlanOutdatedError
from lakewarden.model.partitions import Drop, PartitionExpirer, PartitionFiles, partition_key
from lakewarden.model.policy import PartitionStrategy
from lakewarden.model.table import Pointer
from lakewarden.model.verdict import Brake
from lakewarden.storage.stores import Stores
from tests.jobs.snapshot_expiry.expiry_site import rows_at
from tests.support.policies import partition_policy
from tests.support.rest import Serve

DAYS = [date(2024, 1, day) for day in (1, 2, 3)]
KEYS = [partition_key(0, [day]) for day in DAYS]
NOW = datetime(2024, 2, 1, tzinfo=UTC)


@dataclass
class Place:
    """One catalog with the table t.days: a row a day in each of two appends."""

    catalog: Catalog
    expirer: PartitionExpirer

    @property
    def table(self) -> Table:
        return self.catalog.load_table("t.days")

    @property
    def pointer(self) -> Pointer:
        return Pointer("lake.t.days", self.table.metadata_location)

    def drop(self, *keys: bytes, identifier: int = 1, **how: Any) -> Mapping[str, Any] | None:
        drop = Drop(keys, "worker", identifier, {"lakewarden.job": "partition-expiry"}, **how)
        return self.expirer.drop(self.pointer, drop, int(NOW.timestamp() * 1000))

    def days(self) -> list[int]:
        return sorted(row[1].day for row in rows_at(self.table))


def fill(catalog: Catalog, version: str = "2") -> None:
    catalog.create_namespace("t")
    schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "day", DateType()))
    spec = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "day"))
    catalog.create_table("t.days", schema, partition_spec=spec, properties={"format-version": version})
    for first in (0, 10):
        append(catalog.load_table("t.days"), first)


def append(table: Table, first: int, days: list[date] = DAYS) -> None:
    ids = pa.array([first + place for place in range(len(days))], pa.int64())
    table.append(pa.table({"id": ids, "day": days}))


@pytest.fixture(params=["sqlite", "postgresql", "rest", "rest version 1"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    if request.param.startswith("rest"):
        starting: Serve = request.getfixturevalue("serve")
        properties = {"type": "rest", "uri": starting({"warehouse": f"file://{tmp_path}/warehouse"}).uri}
    else:
        uri = f"sqlite:///{tmp_path}/catalog.db"
        if request.param == "postgresql":
            uri = request.getfixturevalue("postgres_url").replace("postgresql:", "postgresql+psycopg:")
        properties = {"type": "sql", "uri": uri, "warehouse": f"file://{tmp_path}/warehouse"}
    from pyiceberg.catalog import load_catalog

    catalog = load_catalog("lake", **properties)
    fill(catalog, "1" if request.param.endswith("1") else "2")
    yield Place(catalog, open_format("lake", properties, Stores({}), lambda *_: None).partition_expirer)
    catalog.close()


@pytest.fixture
def sqlite(tmp_path: Path) -> Place:
    properties = {"type": "sql", "uri": f"sqlite:///{tmp_path}/c.db", "warehouse": f"file://{tmp_path}/w"}
    catalog = SqlCatalog("lake", **properties)
    fill(catalog)
    return Place(catalog, open_format("lake", properties, Stores({}), lambda *_: None).partition_expirer)


def test_a_drop_is_made_once(place: Place) -> None:
    before = place.table.current_snapshot()
    made = place.drop(KEYS[0], KEYS[1])
    assert made is not None
    assert (made["files"], made["records"], made["partitions"]) == (4, 4, 2)
    assert place.days() == [3, 3]
    # The answer got lost, the run is repeated: it finds its commit.
    assert place.drop(KEYS[0], KEYS[1]) == made
    snapshots = place.table.snapshots()
    assert len(snapshots) == 3
    assert before is not None
    assert snapshots[-1].parent_snapshot_id == before.snapshot_id
    assert snapshots[-1].summary is not None
    assert snapshots[-1].summary.operation.value == "delete"
    # Another run finds nothing left.
    assert place.drop(KEYS[0], KEYS[1], identifier=2) is None
    append(place.table, 20)
    assert place.days() == [1, 2, 3, 3, 3]


def test_a_drop_that_was_rolled_back_is_judged_anew(sqlite: Place) -> None:
    """Our commit is still in the table's list, and its rows are back."""
    before, seen = sqlite.table.metadata.current_snapshot_id, expected(sqlite)
    assert before is not None
    first = sqlite.drop(KEYS[0], KEYS[1], expected=seen)
    roll_back(sqlite, before)
    assert sqlite.days() == [1, 1, 2, 2, 3, 3]
    append(sqlite.table, 50, [DAYS[1]])
    second = sqlite.drop(KEYS[0], KEYS[1], expected=seen)
    assert first is not None
    assert second is not None
    assert second["snapshot"] != first["snapshot"]
    assert (second["partitions"], second["kept"]) == (1, [KEYS[1].hex()])
    assert sqlite.days() == [2, 2, 2, 3, 3]
    # Of two commits under one id, the one in main is ours; a writer after it does not hide it.
    append(sqlite.table, 60, [DAYS[2]])
    assert (sqlite.drop(KEYS[0], KEYS[1], expected=seen) or {})["snapshot"] == second["snapshot"]


def roll_back(place: Place, snapshot: int) -> None:
    update = {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": snapshot}
    place.catalog.commit_table(place.table, (), (SetSnapshotRefUpdate.model_validate(update),))


def test_branches_and_how_long_main_keeps_snapshots_stay(place: Place) -> None:
    table = place.table
    table.manage_snapshots().create_tag(table.current_snapshot().snapshot_id, "kept").commit()  # type: ignore[union-attr]
    settings = {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "min-snapshots-to-keep": 7}
    current = place.table.metadata.current_snapshot_id
    update = SetSnapshotRefUpdate.model_validate({**settings, "snapshot-id": current})
    place.catalog.commit_table(place.table, (), (update,))
    place.drop(KEYS[0])
    refs = place.table.refs()
    assert {name: ref.min_snapshots_to_keep for name, ref in refs.items()} == {"main": 7, "kept": None}
    assert len(rows_at(place.table, refs["kept"].snapshot_id)) == 6


def during(place: Place, monkeypatch: pytest.MonkeyPatch, what: Callable[[], None], times: int = 1) -> None:
    """Let something happen between the reading of the table and our commit."""
    from lakewarden.formats.iceberg.commit import rest_versions

    left = [times]
    for kind in (SqlVersions, rest_versions.RestVersions):

        def add(self: Any, table: str, version: Version, snapshot: Mapping[str, Any], plain: Any = kind.add) -> Version:
            if left[0]:
                left[0] -= 1
                what()
            found: Version = plain(self, table, version, snapshot)
            return found

        monkeypatch.setattr(kind, "add", add)


def test_a_writer_to_another_partition_is_not_lost(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    during(place, monkeypatch, lambda: append(place.table, 50, [DAYS[2]]))
    made = place.drop(KEYS[0], KEYS[1], expected=expected(place))
    assert (made or {})["partitions"] == 2
    assert place.days() == [3, 3, 3]


def test_a_partition_that_is_written_to_meanwhile_is_kept_and_named(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = expected(place)
    during(place, monkeypatch, lambda: append(place.table, 50, [DAYS[1]]))
    made = place.drop(KEYS[0], KEYS[1], expected=seen)
    assert made is not None
    assert (made["partitions"], made["kept"]) == (1, [KEYS[1].hex()])
    assert place.days() == [2, 2, 2, 3, 3]
    # And so it is the next time, unless somebody plans anew.
    assert (place.drop(KEYS[1], identifier=2, expected=seen) or {})["partitions"] == 0


def expected(place: Place) -> dict[bytes, tuple[int, int | None]]:
    newest = place.table.snapshots()[-1].timestamp_ms
    return {key: (2, newest) for key in KEYS}


def test_writers_that_are_always_quicker_end_it(sqlite: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tenacity.nap.time.sleep", lambda _: None)
    during(sqlite, monkeypatch, lambda: append(sqlite.table, 50, [DAYS[2]]), times=100)
    with pytest.raises(CommitConflictError):
        sqlite.drop(KEYS[0])
    assert {1, 2} <= set(sqlite.days())


def test_an_answer_that_got_lost_is_found_in_the_table(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    from lakewarden.formats.iceberg.commit import rest_versions

    for kind in (SqlVersions, rest_versions.RestVersions):

        def add(self: Any, table: str, version: Version, snapshot: Any, plain: Any = kind.add) -> Version:
            plain(self, table, version, snapshot)
            raise CatalogUnavailableError("the line went dead")

        monkeypatch.setattr(kind, "add", add)
    assert (place.drop(KEYS[0]) or {})["partitions"] == 1
    assert place.days() == [2, 2, 3, 3]
    assert len(place.table.snapshots()) == 3


def judge(spec: Spec, values: list[Any], newest: int | None = None, **policy: Any) -> tuple[bool, str]:
    """Whether a partition goes under a policy of 24 hours, and why."""
    row = PartitionFiles(partition_key(spec.number, values), 1, newest)
    found = expirable_partitions(
        {spec.number: spec}, partition_policy(expiration=timedelta(hours=24), **policy), [row], NOW
    )
    lines = [*found.expired, *found.kept]
    return bool(found.expired), lines[0].reason


def spec(*fields: tuple[str, str, str]) -> Spec:
    return Spec(0, tuple(Field(*field) for field in fields))


DAY = (datetime(2024, 1, 31) - datetime(1970, 1, 1)).days
MICROS = DAY * 86_400_000_000


@pytest.mark.parametrize(
    ("fields", "values", "policy", "goes"),
    [
        # The 31st ended when February began, which is now: not more than a day ago. The 30th ended a day ago, sharp.
        ([("d", "day", "timestamptz")], [DAY], {}, False),
        ([("d", "day", "timestamptz")], [DAY - 1], {}, False),
        ([("d", "day", "timestamptz")], [DAY - 2], {}, True),
        ([("d", "identity", "date")], [DAY - 2], {}, True),
        ([("m", "month", "timestamp")], [54 * 12], {}, False),
        ([("m", "month", "timestamp")], [54 * 12 - 1], {}, True),
        ([("y", "year", "timestamp")], [54], {}, False),
        ([("y", "year", "timestamp")], [53], {}, True),
        ([("h", "hour", "timestamp")], [DAY * 24 - 1], {}, False),
        ([("h", "hour", "timestamp")], [DAY * 24 - 2], {}, True),
        ([("t", "identity", "timestamp")], [MICROS - 1], {}, True),
        ([("t", "identity", "timestamp_ns")], [MICROS * 1000 - 999], {}, False),
        # A wall clock in New York is behind: what ended there ended later. An instant is one everywhere.
        ([("h", "hour", "timestamp")], [DAY * 24 - 2], {"time_zone": "America/New_York"}, False),
        ([("h", "hour", "timestamptz")], [DAY * 24 - 2], {"time_zone": "America/New_York"}, True),
        # Text: a day is over at its end, and a month that is spelled as its first day at the month's.
        ([("dt", "identity", "string")], ["2024-01-29"], {}, True),
        ([("dt", "identity", "string")], ["2024-01-30"], {}, False),
        ([("dt", "identity", "int")], [20240129], {"timestamp_formatter": "yyyyMMdd"}, True),
        ([("ym", "identity", "string")], ["2024-01"], {"timestamp_pattern": "$ym-01"}, False),
        ([("ym", "identity", "string")], ["2023-12"], {"timestamp_pattern": "$ym-01"}, True),
        (
            [("dt", "identity", "string"), ("h", "identity", "int")],
            ["2024-01-30", 23],
            {"timestamp_pattern": "$dt $h:00:00"},
            False,
        ),
        (
            [("dt", "identity", "string"), ("h", "identity", "int")],
            ["2024-01-30", 22],
            {"timestamp_pattern": "$dt $h:00:00"},
            True,
        ),
        # A bucket, a region: they tell no time, and the next field does.
        ([("b", "bucket[4]", "long"), ("r", "identity", "string"), ("d", "day", "date")], [1, "eu", DAY - 9], {}, True),
        ([("b", "bucket[4]", "long")], [1], {}, False),
        ([("t", "truncate[4]", "string")], ["2020"], {}, False),
        ([("d", "day", "timestamp")], [None], {}, False),
        ([("d", "day", "timestamp")], [10**9], {}, False),
        ([], [], {}, False),
    ],
)
def test_a_partition_is_as_old_as_its_end(
    fields: list[tuple[str, str, str]], values: list[Any], policy: dict[str, Any], goes: bool
) -> None:
    found, reason = judge(spec(*fields), values, **policy)
    assert (found, bool(reason)) == (goes, True)


def test_by_the_last_time_that_a_file_was_added() -> None:
    field = spec(("d", "day", "timestamp"))
    ago = int((NOW - timedelta(hours=25)).timestamp() * 1000)
    by_update = {"strategy": PartitionStrategy.UPDATE_TIME}
    assert judge(field, [DAY + 99], ago, **by_update)[0]
    assert not judge(field, [DAY - 99], ago + 3_600_000 + 1, **by_update)[0]
    assert judge(field, [DAY - 99], None, **by_update) == (
        False,
        "when a file was added is not known: its snapshot has expired, or it does not say which it was",
    )


def test_the_limit_takes_the_oldest_first() -> None:
    field = spec(("d", "day", "timestamp"))
    rows = [PartitionFiles(partition_key(0, [DAY - age]), 1, None) for age in (5, 9, 7)]
    policy = partition_policy(expiration=timedelta(hours=24), max_partitions=2, batch_size=1)
    found = expirable_partitions({0: field}, policy, rows, NOW)
    assert [[line.label for line in batch] for batch in found.batches] == [["d=2024-01-22"], ["d=2024-01-24"]]
    assert [line.reason for line in found.kept] == ["limit of 2 at a time"]


def test_a_formatter_that_nobody_can_read_refuses() -> None:
    with pytest.raises(ConfigError):
        judge(spec(("dt", "identity", "string")), ["x"], timestamp_formatter="QQ")


def test_the_last_rows_stay_unless_somebody_answers_for_it(place: Place) -> None:
    with pytest.raises(PlanOutdatedError, match="no row would be left") as raised:
        place.drop(*KEYS, expected=expected(place))
    assert raised.value.code == CODES[Brake.TABLE_EMPTIED]
    assert len(place.days()) == 6
    assert (place.drop(*KEYS, expected=expected(place), may_empty=True) or {})["partitions"] == 3
    assert place.days() == []


def test_a_writer_that_takes_the_other_rows_meanwhile_stops_it(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Judged anew at each try: the first one still saw the third day."""
    during(place, monkeypatch, lambda: place.table.delete(EqualTo("day", DAYS[2].isoformat())))
    with pytest.raises(PlanOutdatedError, match="no row would be left"):
        place.drop(KEYS[0], KEYS[1], expected=expected(place))
    assert place.days() == [1, 1, 2, 2]


@dataclass
class Read:
    """Manifests in memory, and which of them were opened."""

    opened: list[str]

    def get(self, uri: str) -> bytes:
        self.opened.append(uri)
        return Path(uri.removeprefix("file://")).read_bytes()


def manifest(path: Path, files: list[tuple[int, int, int]], *, spec: int = 0, counts: bool = True) -> dict[str, Any]:
    """A manifest of files (content, day, records), and the row of a list that names it."""
    entries = [
        {"status": 1, "snapshot_id": 1, "data_file": {"content": kind, "file_path": "f", "record_count": rows, "partition": {"day": day}}}
        for kind, day, rows in files
    ]  # fmt: skip
    partition = {"type": "record", "name": "r102", "fields": [{"name": "day", "type": "int"}]}
    fields = [{"name": name, "type": kind} for name, kind in (("content", "int"), ("file_path", "string"), ("record_count", "long"), ("partition", partition))]  # fmt: skip
    file = {"type": "record", "name": "r2", "fields": fields}
    schema = {"type": "record", "name": "manifest_entry", "fields": [{"name": "status", "type": "int"}, {"name": "snapshot_id", "type": "long"}, {"name": "data_file", "type": file}]}  # fmt: skip
    data = write_avro(AvroFile(schema, "null", tuple(entries)))
    path.write_bytes(data)
    rows = sum(records for _, _, records in files)
    return {
        "manifest_path": f"file://{path}",
        "manifest_length": len(data),
        "partition_spec_id": spec,
        "content": int(any(kind for kind, _, _ in files)),
        "added_files_count": len(files),
        "existing_files_count": 0,
        "deleted_files_count": 0,
        "added_rows_count": rows if counts else None,
        "existing_rows_count": 0 if counts else None,
    }


@pytest.mark.parametrize(
    ("data", "deletes", "counts", "left", "opens"),
    [
        # Days 1 and 2 go. What the list says is enough where more rows stay than anything can have deleted.
        ([(0, 1, 5), (0, 3, 5)], [], True, True, False),
        ([(0, 1, 5), (0, 3, 5)], [(1, 3, 4)], True, True, False),
        ([(0, 1, 5), (0, 3, 5)], [(1, 3, 5)], True, False, True),
        # Deletes in what goes take nothing from what stays, and one partition's nothing from another.
        ([(0, 1, 9), (0, 3, 5)], [(1, 1, 9)], True, True, True),
        ([(0, 3, 5), (0, 4, 1)], [(1, 3, 50)], True, True, True),
        # Rows that are deleted by values cannot be counted.
        ([(0, 1, 5), (0, 3, 5)], [(2, 3, 5)], True, True, True),
        # Files without rows, and files whose rows nobody counted.
        ([(0, 1, 5), (0, 3, 0)], [], True, False, True),
        ([(0, 1, 5), (0, 3, -1)], [], True, True, True),
        ([(0, 1, 5), (0, 2, 5)], [], True, False, True),
        # A list of version 1 need not count rows.
        ([(0, 1, 5), (0, 3, 5)], [], False, True, True),
    ],
)
def test_whether_rows_are_left_beside_partitions(
    tmp_path: Path,
    data: list[tuple[int, int, int]],
    deletes: list[tuple[int, int, int]],
    counts: bool,
    left: bool,
    opens: bool,
) -> None:
    rows = [manifest(tmp_path / "data.avro", data, counts=counts)]
    rows += [manifest(tmp_path / "deletes.avro", deletes, counts=counts)] if deletes else []
    going = {partition_key(0, [day]): sum(max(n, 0) for _, d, n in data if d == day) for day in (1, 2)}
    files = Read([])
    found = leaves_rows(files, AvroFile({}, "null", tuple(rows)), going, sum(going.values()))  # type: ignore[arg-type]
    assert (found, bool(files.opened)) == (left, opens)
