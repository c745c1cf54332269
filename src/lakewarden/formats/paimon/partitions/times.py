"""The time that partition values spell: a column's own, or several put together by a `$column` pattern."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, tzinfo

from lakewarden.formats.paimon.partitions.values import Column, Value, spelled
from lakewarden.model.partition_ends import filled
from lakewarden.model.partition_times import DEFAULT_WORDS, Parse, compile_formatter, parse_default


@dataclass(frozen=True, slots=True)
class PartitionClock:
    """How the values of one table's partitions spell a time, on the wall clock of `zone`. Build it with `of`."""

    columns: tuple[Column, ...]
    pattern: str | None
    formatter: str | None
    zone: tzinfo
    parse: Parse

    @staticmethod
    def of(columns: Sequence[Column], pattern: str | None, formatter: str | None, zone: tzinfo) -> PartitionClock:
        """Raises ConfigError for a formatter that has a letter nobody knows, or no day to find."""
        parse = parse_default if formatter is None else compile_formatter(formatter)
        return PartitionClock(tuple(columns), pattern, formatter, zone, parse)

    def read(self, values: Sequence[Value]) -> datetime | str:
        """The wall clock time that the values spell, or in words why they spell none."""
        found = self._typed(values)
        if isinstance(found, datetime):
            return found
        missing = [column.name for column, value in zip(self.columns, values, strict=True) if value is None]
        used = [name for name in missing if self.pattern is not None or name == self.columns[0].name]
        if used:
            return f"{used[0]} is null"
        text = spelled(values[0], self.zone) if self.pattern is None else self._filled(values)
        moment = self.parse(text)
        if moment is None:
            return f"{text!r} is no time of the form {self.formatter or DEFAULT_WORDS}"
        return moment

    def _typed(self, values: Sequence[Value]) -> datetime | None:
        """The value of the one column that counts, where its type is already a date or a time."""
        named = self.columns[0].name if self.pattern is None else self.pattern.removeprefix("$")
        for column, value in zip(self.columns, values, strict=True):
            if column.name != named:
                continue
            if isinstance(value, datetime):
                return value if value.tzinfo is None else value.astimezone(self.zone).replace(tzinfo=None)
            if isinstance(value, date):
                return datetime.combine(value, time())
        return None

    def _filled(self, values: Sequence[Value]) -> str:
        texts = {c.name: spelled(v, self.zone) for c, v in zip(self.columns, values, strict=True)}
        return filled(self.pattern or "", texts).text
