"""What a manifest list says of the partitions in a manifest: whether one is null or no number, and the ends of the others.

Readers leave manifests unopened by it, so ends that are too narrow lose rows, and ends that are missing say that every value is
null. Where the order of a type's values is not certain, nothing is said at all: that is allowed, and true.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Iterable, Mapping
from datetime import date, datetime, time
from decimal import Context, Decimal
from typing import Any
from uuid import UUID

from lakewarden.formats.iceberg.partitions.specs import PERIODS, Field, Spec
from lakewarden.model.partitions import stored_value

_NUMBERS = {"int": "<i", "date": "<i", "long": "<q", "time": "<q", "float": "<f", "double": "<d"} | dict.fromkeys(
    ("timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns"), "<q"
)
_DECIMAL = re.compile(r"decimal\(\s*\d+\s*,\s*(\d+)\s*\)")
_EXACT = Context(prec=80)


def partition_summaries(spec: Spec, partitions: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]] | None:
    """A summary for each field of the spec over these partitions; None where it cannot be told for certain."""
    rows = [tuple(partition.values()) for partition in partitions]
    if any(len(row) != len(spec.fields) for row in rows):
        return None
    found = [_summary(field, {row[place] for row in rows}) for place, field in enumerate(spec.fields)]
    told = [summary for summary in found if summary is not None]
    return told if len(told) == len(found) else None


def _summary(field: Field, values: set[Any]) -> dict[str, Any] | None:
    nans = {value for value in values if isinstance(value, float) and math.isnan(value)}
    real = [_comparable(value) for value in values - nans if value is not None]
    ends: list[bytes | None] = [None, None]
    if real:
        if field.type == "uuid" and field.transform == "identity" and len(real) > 1:
            # Libraries disagree on the order of uuids, whatever Python has for them.
            return None
        lower, upper = _bytes(field, min(real), below=True), _bytes(field, max(real), below=False)
        if lower is None or upper is None:
            return None
        ends = [lower, upper]
    return {"contains_null": None in values, "contains_nan": bool(nans), "lower_bound": ends[0], "upper_bound": ends[1]}


def _comparable(value: Any) -> Any:
    return stored_value(value) if isinstance(value, date | datetime | time) else value


def _bytes(field: Field, value: Any, *, below: bool) -> bytes | None:
    """A value as the specification writes it ("Binary single-value serialization"); None for a type that is not known."""
    if field.transform in PERIODS or field.transform.startswith("bucket"):
        return struct.pack("<i", value)
    if field.transform != "identity" and not field.transform.startswith("truncate"):
        return None
    if isinstance(value, bool):
        return b"\x01" if value else b"\x00"
    if isinstance(value, float) and value == 0:
        # Zero has two signs, and the negative one sorts first.
        value = -0.0 if below else 0.0
    if form := _NUMBERS.get(field.type):
        return struct.pack(form, value)
    if isinstance(value, Decimal) and (scale := _DECIMAL.fullmatch(field.type)):
        unscaled = int(value.scaleb(int(scale[1]), _EXACT))
        bits = (unscaled if unscaled >= 0 else ~unscaled).bit_length()
        return unscaled.to_bytes(bits // 8 + 1, "big", signed=True)
    if isinstance(value, str | bytes):
        return value.encode() if isinstance(value, str) else value
    return value.bytes if isinstance(value, UUID) else None
