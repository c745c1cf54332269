"""Which partitions of a table are old enough to be dropped, and why each other one stays."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo

from lakewarden.formats.paimon.metadata.options import bad_option, duration, in_words, whole
from lakewarden.formats.paimon.metadata.table import Schema
from lakewarden.formats.paimon.partitions.drop import check_droppable
from lakewarden.formats.paimon.partitions.times import PartitionClock
from lakewarden.formats.paimon.partitions.values import DEFAULT_NAME, Column, decode, label, partition_columns, spelled
from lakewarden.model.errors import LakewardenError, Refusal
from lakewarden.model.partitions import PartitionFiles, PartitionLine
from lakewarden.model.policy import PartitionPolicy, PartitionStrategy

_EPOCH = datetime(1970, 1, 1)


@dataclass(frozen=True, slots=True)
class PartitionRetention:
    """The partitions that go, in the order they go, and those that stay. `inactive` says why the job has no say here.

    `waiting` are those that stay only because no more may go at a time.
    """

    expired: tuple[PartitionLine, ...] = ()
    kept: tuple[PartitionLine, ...] = ()
    waiting: tuple[PartitionLine, ...] = ()
    batch_size: int = 100
    inactive: str | None = None
    refusal: Refusal | None = None

    @property
    def batches(self) -> list[tuple[PartitionLine, ...]]:
        """What goes in one commit each."""
        return [self.expired[i : i + self.batch_size] for i in range(0, len(self.expired), self.batch_size)]


def expirable_partitions(
    schema: Schema, policy: PartitionPolicy, partitions: Iterable[PartitionFiles], now: datetime
) -> PartitionRetention:
    """The partitions that may go now. What cannot be understood comes back as a refusal, never raised."""
    try:
        rules = partition_rules(schema, policy)
        if rules is None:
            return PartitionRetention(inactive="partition.expiration-time is not set")
        if not schema.partition_keys:
            return PartitionRetention(inactive="the table has no partitions")
        check_droppable(schema)
    except LakewardenError as error:
        return PartitionRetention(refusal=error.refusal())
    expired: list[tuple[str, PartitionLine]] = []
    kept: list[PartitionLine] = []
    cutoff = _cutoff(now, rules)
    for row in partitions:
        if row.files <= 0:
            continue  # everything in it is gone already
        order, name, reason, old = _judge(rules, row, cutoff)
        judged = PartitionLine(row.partition, name, reason)
        if old:
            expired.append((order, judged))
        else:
            kept.append(judged)
    going = [judged for _, judged in sorted(expired, key=lambda pair: pair[0])]
    late = f"limit of {rules.max_partitions} at a time"
    waiting = tuple(PartitionLine(p.partition, p.label, late) for p in going[rules.max_partitions :])
    kept = sorted([*kept, *waiting], key=lambda judged: judged.label)
    return PartitionRetention(tuple(going[: rules.max_partitions]), tuple(kept), waiting, rules.batch_size)


@dataclass(frozen=True, slots=True)
class PartitionRules:
    """How a table's partitions age: the policy's word, and the table's own options where the policy has none."""

    columns: tuple[Column, ...]
    expiration: timedelta
    strategy: PartitionStrategy
    clock: PartitionClock
    max_partitions: int
    batch_size: int
    default_name: str = DEFAULT_NAME
    zone: tzinfo = field(default=UTC)


def partition_rules(schema: Schema, policy: PartitionPolicy) -> PartitionRules | None:
    """The rules in effect; None where nobody said how long partitions live. Raises ConfigError, UnsupportedTableError."""
    options = schema.options
    own = duration(options, "partition.expiration-time")
    expiration = own if policy.expiration is None else policy.expiration
    if expiration is None:
        return None
    zone = ZoneInfo(policy.time_zone)
    strategy = policy.strategy or _strategy(options)
    columns = partition_columns(schema)
    by_values = strategy is PartitionStrategy.VALUES_TIME
    formatter = policy.timestamp_formatter or options.get("partition.timestamp-formatter")
    pattern = policy.timestamp_pattern or options.get("partition.timestamp-pattern")
    most = policy.max_partitions or _positive(options, "partition.expiration-max-num", 100)
    return PartitionRules(
        columns=columns,
        expiration=expiration,
        strategy=strategy,
        clock=PartitionClock.of(columns, pattern, formatter if by_values else None, zone),
        max_partitions=most,
        batch_size=policy.batch_size or max(whole(options, "partition.expiration-batch-size") or 0, 0) or most,
        default_name=options.get("partition.default-name", DEFAULT_NAME),
        zone=zone,
    )


def _cutoff(now: datetime, rules: PartitionRules) -> datetime:
    local = now.astimezone(rules.zone).replace(tzinfo=None)
    return local - rules.expiration if rules.expiration < local - datetime.min else datetime.min


def _judge(rules: PartitionRules, row: PartitionFiles, cutoff: datetime) -> tuple[str, str, str, bool]:
    """Where the partition sorts, its name, the reason, and whether it is old enough."""
    try:
        values = decode(row.partition, rules.columns)
    except ValueError as error:
        return "", row.partition.hex(), str(error), False
    order = ",".join(rules.default_name if value is None else spelled(value, rules.zone) for value in values)
    name = label(rules.columns, values, rules.default_name)
    if rules.strategy is PartitionStrategy.VALUES_TIME:
        moment = rules.clock.read(values)
    elif row.newest_ms is None:
        moment = "a file has no creation time"
    else:
        moment = _wall_clock(row.newest_ms)
    if isinstance(moment, str):
        return order, name, moment, False
    length = in_words(rules.expiration)
    old = cutoff > moment
    return order, name, f"{moment.isoformat(' ')} is {'more' if old else 'not more'} than {length} ago", old


def _wall_clock(millis: int) -> datetime | str:
    try:
        return _EPOCH + timedelta(milliseconds=millis)
    except OverflowError:
        return f"a file's creation time, {millis}, is no date"


def _strategy(options: Mapping[str, str]) -> PartitionStrategy:
    text = options.get("partition.expiration-strategy", PartitionStrategy.VALUES_TIME)
    if text not in list(PartitionStrategy):
        raise bad_option("partition.expiration-strategy", text, "is not values-time or update-time")
    return PartitionStrategy(text)


def _positive(options: Mapping[str, str], key: str, default: int) -> int:
    number = whole(options, key, default)
    assert number is not None
    if number < 1:
        raise bad_option(key, number, "is below 1")
    return number
