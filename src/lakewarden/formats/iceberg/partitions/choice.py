"""Which partitions of a table are old enough to be dropped, and why each other one stays.

A partition is as old as its end: a month's is a month long, and is old when its last day is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

from lakewarden.formats.iceberg.partitions.specs import (
    PERIODS,
    Field,
    Spec,
    as_utc,
    decode,
    is_instant,
    label,
    spelled,
    start_of,
)
from lakewarden.model.partition_ends import Filled, columns_in, end_of, end_of_spelled, filled
from lakewarden.model.partition_times import DEFAULT_WORDS, TimeForm, time_form
from lakewarden.model.partitions import PartitionExpiration, PartitionFiles, PartitionLine
from lakewarden.model.policy import PartitionPolicy, PartitionStrategy

AT_A_TIME = 100
EXPIRED_SNAPSHOT = "when a file was added is not known: its snapshot has expired, or it does not say which it was"


@dataclass(frozen=True, slots=True)
class Judged:
    """A partition's end on a clock in UTC, or in words why it has none."""

    name: str
    end: datetime | None
    reason: str


def expirable_partitions(
    specs: Mapping[int, Spec], policy: PartitionPolicy, partitions: Iterable[PartitionFiles], now: datetime
) -> PartitionExpiration:
    """What may go now, the oldest first. Raises ConfigError for a formatter that nobody can read."""
    assert policy.expiration is not None
    clock = PartitionClock.of(policy)
    expired: list[tuple[datetime, PartitionLine]] = []
    kept: list[PartitionLine] = []
    for row in partitions:
        if row.files <= 0:
            continue
        found = clock.judge(specs, row)
        if found.end is None:
            kept.append(PartitionLine(row.partition, found.name, found.reason))
            continue
        old = now - policy.expiration > found.end if _reaches(now, policy.expiration) else False
        age = f"{found.reason}, {'more' if old else 'not more'} than {_words(policy.expiration)} ago"
        line = PartitionLine(row.partition, found.name, age)
        if old:
            expired.append((found.end, line))
        else:
            kept.append(line)
    going = [line for _, line in sorted(expired, key=lambda pair: (pair[0], pair[1].label))]
    most = policy.max_partitions or AT_A_TIME
    waiting = tuple(PartitionLine(p.partition, p.label, f"limit of {most} at a time") for p in going[most:])
    size = policy.batch_size or most
    batches = tuple(tuple(going[:most][at : at + size]) for at in range(0, len(going[:most]), size))
    return PartitionExpiration(batches, tuple(sorted([*kept, *waiting], key=lambda line: line.label)), waiting)


@dataclass(frozen=True, slots=True)
class PartitionClock:
    """How partitions of one table age under its policy."""

    strategy: PartitionStrategy
    formatter: str | None
    pattern: str | None
    zone: tzinfo
    form: TimeForm

    @staticmethod
    def of(policy: PartitionPolicy) -> PartitionClock:
        """Raises ConfigError for a formatter that has a letter nobody knows, or no day to find."""
        formatter = policy.timestamp_formatter
        strategy = policy.strategy or PartitionStrategy.VALUES_TIME
        zone, form = ZoneInfo(policy.time_zone), time_form(formatter)
        return PartitionClock(strategy, formatter, policy.timestamp_pattern, zone, form)

    def judge(self, specs: Mapping[int, Spec], row: PartitionFiles) -> Judged:
        """When one partition ended: by its values, or by the last time that a file was added to it."""
        try:
            spec, values = decode(row.partition, specs)
        except ValueError as error:
            return Judged(row.partition.decode(errors="replace"), None, str(error))
        name = label(spec, values)
        if self.strategy is PartitionStrategy.UPDATE_TIME:
            if row.newest_ms is None:
                return Judged(name, None, EXPIRED_SNAPSHOT)
            added = datetime.fromtimestamp(row.newest_ms / 1000, UTC)
            return Judged(name, added, f"a file was last added {added:%Y-%m-%d %H:%M:%S} UTC")
        return self._by_values(name, spec, values)

    def _by_values(self, name: str, spec: Spec, values: list[Any]) -> Judged:
        named = dict(zip((field.name for field in spec.fields), zip(spec.fields, values, strict=True), strict=True))
        used = [] if self.pattern is None else columns_in(named).findall(self.pattern) if named else []
        field = next((field for field in spec.fields if field.typed_time), None)
        if used and all(named[column][0].texts for column in used):
            missing = [column for column in used if named[column][1] is None]
            texts = {column: spelled(*named[column]) for column in named}
            assert self.pattern is not None
            return self._text(name, ", ".join(used), filled(self.pattern, texts), missing)
        if field is not None:
            return self._typed(name, field, named[field.name][1])
        text = next((field for field in spec.fields if field.texts), None)
        if text is None:
            return Judged(name, None, f"spec {spec.number} has no field that tells a time")
        value = named[text.name][1]
        found = Filled.of_column(spelled(text, value))
        return self._text(name, text.name, found, [text.name] if value is None else [])

    def _typed(self, name: str, field: Field, value: Any) -> Judged:
        """The end of a year, month, day or hour; a timestamp is its own."""
        if value is None:
            return Judged(name, None, f"{field.name} is null")
        start = start_of(field, value)
        unit = PERIODS.get(field.transform) or ("d" if field.type == "date" else None)
        try:
            end = start if start is None or unit is None else end_of(start, unit)
        except (ValueError, OverflowError):
            end = None
        if end is None:
            return Judged(name, None, f"{field.name} {value} is beyond the calendar")
        moment = as_utc(end) if is_instant(field) else self._instant(end)
        return Judged(name, moment, f"{field.name} ended {end.isoformat(' ')}")

    def _text(self, name: str, columns: str, found: Filled, missing: list[str]) -> Judged:
        """The end of what the columns spell: of a day if they spell no more than one, of a month if no day."""
        if missing:
            return Judged(name, None, f"{missing[0]} is null")
        end = end_of_spelled(self.form, found, self.formatter or DEFAULT_WORDS)
        if isinstance(end, str):
            return Judged(name, None, end)
        return Judged(name, self._instant(end), f"{columns} ended {end.isoformat(' ')}")

    def _instant(self, moment: datetime) -> datetime:
        """The later of the instants at which the wall clock of the policy's zone shows this time, or jumps over it."""
        try:
            return max(moment.replace(tzinfo=self.zone, fold=fold).astimezone(UTC) for fold in (0, 1))
        except OverflowError:
            return as_utc(moment)


def _reaches(now: datetime, length: timedelta) -> bool:
    return length < now.replace(tzinfo=None) - datetime.min


def _words(length: timedelta) -> str:
    hours = length / timedelta(hours=1)
    if hours >= 48 and hours % 24 == 0:
        return f"{hours / 24:g} days"
    return "1 hour" if hours == 1 else f"{hours:g} hours"
