"""How a table is partitioned: every spec it has had, and the type of each field's values."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from lakewarden.model.partitions import partition_key

EPOCH = datetime(1970, 1, 1)
# Transforms whose values are numbers of years, months, days or hours since 1970, and the unit each covers.
PERIODS = {"year": "y", "month": "M", "day": "d", "hour": "H"}
ZONED = frozenset({"timestamptz", "timestamptz_ns"})
NANOSECONDS = frozenset({"timestamp_ns", "timestamptz_ns"})
TIMESTAMPS = frozenset({"timestamp", "timestamptz"}) | NANOSECONDS


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a spec; `type` is the source column's, empty where no schema has that column any more."""

    name: str
    transform: str
    type: str

    @property
    def typed_time(self) -> bool:
        """Whether its values are times by themselves."""
        return self.transform in PERIODS or (self.transform == "identity" and self.type in {"date", *TIMESTAMPS})

    @property
    def texts(self) -> bool:
        """Whether its values may spell a time."""
        return self.transform == "identity" and self.type in {"string", "int", "long"}


@dataclass(frozen=True, slots=True)
class Spec:
    """One way in which files of the table are, or were, partitioned."""

    number: int
    fields: tuple[Field, ...]

    @property
    def unpartitioned(self) -> bool:
        """Whether it divides nothing: it has no field, or only such as were dropped and left a place (`void`)."""
        return all(field.transform == "void" for field in self.fields)


def specs_of(document: Mapping[str, Any]) -> dict[int, Spec]:
    """Every spec of the table, by its number."""
    types = dict(_types(document))
    written = document.get("partition-specs")
    if written is None:
        written = [{"spec-id": 0, "fields": document.get("partition-spec") or []}]
    return {
        int(spec["spec-id"]): Spec(
            int(spec["spec-id"]),
            tuple(
                Field(str(f["name"]), str(f["transform"]), types.get(int(f.get("source-id", -1)), ""))
                for f in spec["fields"]
            ),
        )
        for spec in written
    }


def key_of(spec: int, partition: Mapping[str, Any] | None) -> bytes:
    """A file's partition by its spec and values, as they are counted."""
    return partition_key(spec, partition.values()) if partition else f"[{spec},[]]".encode()


def decode(key: bytes, specs: Mapping[int, Spec]) -> tuple[Spec, list[Any]]:
    """The spec and the values of a counted partition. Raises ValueError if the table has no such spec."""
    number, values = json.loads(key)
    spec = specs.get(number)
    if spec is None or len(spec.fields) != len(values):
        raise ValueError(f"the table has no spec {number} of {len(values)} fields")
    return spec, values


def label(spec: Spec, values: Sequence[Any]) -> str:
    """A partition for people: `dt=2024-01-31/region=eu`."""
    if not values:
        return f"unpartitioned files (spec {spec.number})"
    return "/".join(
        f"{field.name}={'null' if value is None else spelled(field, value)}"
        for field, value in zip(spec.fields, values, strict=True)
    )


def spelled(field: Field, value: Any) -> str:
    """One value as people write it."""
    moment = start_of(field, value) if field.typed_time else None
    if moment is None:
        return str(value).lower() if isinstance(value, bool) else str(value)
    if field.transform == "identity" and field.type != "date":
        return moment.isoformat(" ")
    shapes = {"year": "%Y", "month": "%Y-%m", "hour": "%Y-%m-%d-%H"}
    return moment.strftime(shapes.get(field.transform, "%Y-%m-%d"))


def start_of(field: Field, value: Any) -> datetime | None:
    """The time at which a typed value begins, on a clock without a zone; None beyond the calendar."""
    try:
        if field.transform == "year":
            return datetime(1970 + value, 1, 1)
        if field.transform == "month":
            return datetime(1970 + value // 12, value % 12 + 1, 1)
        if field.transform == "hour":
            return EPOCH + timedelta(hours=value)
        if field.transform == "day" or field.type == "date":
            return EPOCH + timedelta(days=value)
        # Rounded up: a partition must never look older than it is.
        return EPOCH + timedelta(microseconds=-(-value // 1000) if field.type in NANOSECONDS else value)
    except (OverflowError, ValueError, TypeError):
        return None


def is_instant(field: Field) -> bool:
    """Whether its values are instants, which transforms cut in UTC, rather than readings of some wall clock."""
    return field.type in ZONED


def as_utc(moment: datetime) -> datetime:
    return moment.replace(tzinfo=UTC)


def _types(document: Mapping[str, Any]) -> Iterator[tuple[int, str]]:
    """The type of every column that any schema has or had; the current schema's word comes last."""
    schemas = list(document.get("schemas") or [])
    current = document.get("current-schema-id")
    schemas.sort(key=lambda schema: schema.get("schema-id") == current)
    for schema in schemas or [document.get("schema") or {}]:
        yield from _columns(schema)


def _columns(struct: Mapping[str, Any]) -> Iterator[tuple[int, str]]:
    for field in struct.get("fields") or []:
        kind = field["type"]
        if isinstance(kind, str):
            yield int(field["id"]), kind
        elif kind.get("type") == "struct":
            yield from _columns(kind)
