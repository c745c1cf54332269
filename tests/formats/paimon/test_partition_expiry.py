"""Which partitions go, and why each other one stays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pypaimon.schema.data_types import AtomicType, DataField
from pypaimon.table.row.generic_row import GenericRow, GenericRowSerializer

from lakewarden.formats.paimon.metadata.table import Schema
from lakewarden.formats.paimon.partitions.choice import PartitionFiles, PartitionRetention, expirable_partitions
from lakewarden.model.policy import PartitionPolicy, PartitionStrategy
from tests.support.policies import partition_policy

NOW = datetime(2024, 1, 10, 12, tzinfo=UTC)
DAY = timedelta(days=1)
WEEK = {"partition.expiration-time": "7 d"}


def schema_of(options: Mapping[str, str], *types: str) -> Schema:
    names = ("dt", "hr")[: len(types)]
    fields = tuple({"id": i, "name": n, "type": t} for i, (n, t) in enumerate(zip(names, types, strict=True)))
    return Schema(0, fields, names, (), options)


def partition(types: Sequence[str], values: Sequence[Any]) -> bytes:
    fields = [DataField(i, f"c{i}", AtomicType(kind)) for i, kind in enumerate(types)]
    made: bytes = GenericRowSerializer.to_bytes(GenericRow(list(values), fields))
    return made


def judged(
    options: Mapping[str, str],
    values: Sequence[Any],
    policy: PartitionPolicy | None = None,
    types: Sequence[str] = ("STRING",),
    now: datetime = NOW,
) -> PartitionRetention:
    rows = [value if isinstance(value, tuple) else (value,) for value in values]
    files = [PartitionFiles(partition(types, row), 1, None) for row in rows]
    return expirable_partitions(schema_of(options, *types), policy or partition_policy(), files, now)


def labels(found: PartitionRetention) -> list[str]:
    return [p.label.removeprefix("dt=") for p in found.expired]


def reasons(found: PartitionRetention) -> dict[str, str]:
    return {p.label.removeprefix("dt="): p.reason for p in found.kept}


def test_older_than_the_limit_goes_and_exactly_at_it_stays() -> None:
    found = judged(WEEK, ["2024-01-04", "2024-01-03", "2024-01-02", "2024-01-03 12:00:00", "2024-01-03 11:59:59"])
    assert labels(found) == ["2024-01-02", "2024-01-03", "2024-01-03 11:59:59"]
    assert reasons(found)["2024-01-03 12:00:00"] == "2024-01-03 12:00:00 is not more than 7 d ago"
    assert found.expired[0].reason == "2024-01-02 00:00:00 is more than 7 d ago"


def test_the_bytes_come_back_with_the_name() -> None:
    found = judged(WEEK, ["2024-01-02"])
    assert found.expired[0].partition == partition(["STRING"], ["2024-01-02"])
    assert found.expired[0].label == "dt=2024-01-02"


def test_nothing_goes_unless_somebody_says_how_long_partitions_live() -> None:
    found = judged({}, ["1970-01-01"])
    assert (found.expired, found.inactive) == ((), "partition.expiration-time is not set")
    assert labels(judged({}, ["1970-01-01"], partition_policy(expiration=DAY))) == ["1970-01-01"]
    assert judged(WEEK, ["2024-01-09"], partition_policy(expiration=DAY / 2)).expired
    plain = expirable_partitions(Schema(0, (), (), (), WEEK), partition_policy(), [], NOW)
    assert plain.inactive == "the table has no partitions"


def test_for_ever_is_for_ever() -> None:
    assert not judged({"partition.expiration-time": "9223372036854775807 ms"}, ["0001-01-01"]).expired


def test_values_that_spell_no_time_keep_their_partition() -> None:
    found = judged(WEEK, ["1999-01-01", "latest", None])
    assert labels(found) == ["1999-01-01"]
    assert "is no time of the form" in reasons(found)["latest"]
    assert reasons(found)["__DEFAULT_PARTITION__"] == "dt is null"


def test_formatter_and_pattern_from_the_table_and_from_the_policy() -> None:
    options = {**WEEK, "partition.timestamp-formatter": "yyyyMMdd HH", "partition.timestamp-pattern": "$dt $hr"}
    types = ("STRING", "STRING")
    assert len(judged(options, [("20240103", "11"), ("20240103", "12")], types=types).expired) == 1
    policy = partition_policy(timestamp_formatter="yyyyMMdd", timestamp_pattern="$dt")
    assert len(judged(options, [("20240103", "11"), ("20240103", "12")], policy, types).expired) == 2


def test_a_day_by_its_type() -> None:
    from datetime import date

    assert len(judged(WEEK, [date(2024, 1, 2), date(2024, 1, 4)], types=("DATE",)).expired) == 1


@pytest.mark.parametrize(
    ("zone", "expired"), [("UTC", False), ("Asia/Tokyo", True), ("America/New_York", False), ("Etc/GMT-1", True)]
)
def test_the_wall_clock_is_the_zones(zone: str, expired: bool) -> None:
    found = judged(WEEK, ["2024-01-03 12:30:00"], partition_policy(time_zone=zone))
    assert bool(found.expired) is expired


def test_the_oldest_names_go_first_up_to_the_limit() -> None:
    days = [f"2023-01-{day:02d}" for day in range(31, 0, -1)]
    found = judged({**WEEK, "partition.expiration-max-num": "5", "partition.expiration-batch-size": "2"}, days)
    assert labels(found) == [f"2023-01-{day:02d}" for day in range(1, 6)]
    assert set(reasons(found).values()) == {"limit of 5 at a time"}
    assert [len(batch) for batch in found.batches] == [2, 2, 1]
    found = judged(WEEK, days, partition_policy(max_partitions=7))
    assert [len(batch) for batch in found.batches] == [7]
    assert len(judged(WEEK, [f"2023-{m}-{d}" for m in range(1, 12) for d in range(1, 12)]).expired) == 100


# -- the time of the last change


def ms(moment: datetime) -> int:
    return int(moment.replace(tzinfo=UTC).timestamp() * 1000)


@pytest.mark.parametrize(("zone", "ids"), [("UTC", [1]), ("Asia/Tokyo", [1, 2]), ("Etc/GMT+1", [])])
def test_by_the_last_change(zone: str, ids: list[int]) -> None:
    cutoff = datetime(2024, 1, 3, 12)
    rows = [
        PartitionFiles(partition(["INT"], [1]), 3, ms(cutoff - timedelta(milliseconds=1))),
        PartitionFiles(partition(["INT"], [2]), 3, ms(cutoff)),
        PartitionFiles(partition(["INT"], [3]), 3, None),
        PartitionFiles(partition(["INT"], [4]), 0, ms(datetime(2000, 1, 1))),
        PartitionFiles(partition(["INT"], [5]), 1, 2**62),
    ]
    policy = partition_policy(strategy=PartitionStrategy.UPDATE_TIME, time_zone=zone, timestamp_formatter="YYYY")
    found = expirable_partitions(schema_of(WEEK, "INT"), policy, rows, NOW)
    assert labels(found) == [str(i) for i in ids]
    assert reasons(found)["3"] == "a file has no creation time"
    assert "4" not in reasons(found)
    assert "no date" in reasons(found)["5"]


def test_the_strategy_of_the_table() -> None:
    options = {**WEEK, "partition.expiration-strategy": "update-time"}
    row = PartitionFiles(partition(["STRING"], ["2099-01-01"]), 1, ms(datetime(2000, 1, 1)))
    assert expirable_partitions(schema_of(options, "STRING"), partition_policy(), [row], NOW).expired
    by_value = partition_policy(strategy=PartitionStrategy.VALUES_TIME)
    assert not expirable_partitions(schema_of(options, "STRING"), by_value, [row], NOW).expired


# -- refusals


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        ({"partition.expiration-time": "a week"}, "LW-CONF-001", "partition.expiration-time"),
        ({"partition.expiration-strategy": "custom"}, "LW-CONF-001", "partition.expiration-strategy"),
        ({"partition.timestamp-formatter": "YYYYMMdd"}, "LW-CONF-001", "letter 'Y'"),
        ({"partition.expiration-max-num": "0"}, "LW-CONF-001", "partition.expiration-max-num"),
        ({"metastore.partitioned-table": "true"}, "LW-TABLE-003", "metastore.partitioned-table"),
        ({"chain-table.enabled": "true"}, "LW-TABLE-003", "chain-table"),
        ({"metadata.iceberg.storage": "table-location"}, "LW-TABLE-003", "metadata.iceberg.storage"),
        ({"commit.callbacks": "org.acme.Tell"}, "LW-TABLE-003", "commit.callbacks"),
    ],
)
def test_what_cannot_be_judged_or_dropped_is_refused(options: Mapping[str, str], code: str, said: str) -> None:
    found = judged({**WEEK, **options}, ["1999-01-01"])
    assert found.refusal is not None
    assert found.refusal.code == code
    assert said in found.refusal.message
    assert not found.expired


def test_bytes_that_are_no_partition_of_the_table_stay() -> None:
    rows = [PartitionFiles(partition(["STRING", "INT"], ["1999-01-01", 1]), 1, None)]
    found = expirable_partitions(schema_of(WEEK, "STRING"), partition_policy(), rows, NOW)
    assert not found.expired
    assert "other columns" in found.kept[0].reason
