"""What a manifest list says of the partitions in each manifest: enough to leave most manifests unopened."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from lakewarden.formats.iceberg.partitions.specs import PERIODS, Field, Spec

_NUMBERS = frozenset(
    {"int", "long", "date", "time", "timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns", "boolean"}
)


def may_hold(row: Mapping[str, Any], spec: Spec, partitions: Iterable[Sequence[Any]]) -> bool:
    """Whether a manifest may have files in one of these partitions. What cannot be told may be."""
    summaries = row.get("partitions")
    if not summaries or len(summaries) != len(spec.fields):
        return True
    ranges = [_range(field, summary) for field, summary in zip(spec.fields, summaries, strict=True)]
    nulls = [summary["contains_null"] is not False for summary in summaries]
    return any(
        all(
            null if value is None else found is None or _within(value, found)
            for value, found, null in zip(values, ranges, nulls, strict=True)
        )
        for values in partitions
    )


def bound(field: Field, raw: bytes | None) -> int | str | None:
    """One bound as a value that compares as partitions do; None for what has no such value."""
    if raw is None:
        return None
    if field.transform in PERIODS or field.transform.startswith("bucket"):
        return int.from_bytes(raw, "little", signed=True)
    if field.transform != "identity" and not field.transform.startswith("truncate"):
        return None
    if field.type in _NUMBERS:
        return int.from_bytes(raw, "little", signed=True)
    try:
        return raw.decode() if field.type == "string" else None
    except UnicodeDecodeError:
        return None


def _range(field: Field, summary: Mapping[str, Any]) -> tuple[Any, Any] | None:
    lower, upper = bound(field, summary.get("lower_bound")), bound(field, summary.get("upper_bound"))
    return None if lower is None or upper is None else (lower, upper)


def _within(value: Any, found: tuple[Any, Any]) -> bool:
    try:
        return bool(found[0] <= value <= found[1])
    except TypeError:
        return True
