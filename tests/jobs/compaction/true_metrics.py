"""What a table's manifests should say of its data files, found in the files themselves and by no code of ours."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.conversions import from_bytes
from pyiceberg.manifest import DataFile, DataFileContent
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import (
    DoubleType,
    FloatType,
    IcebergType,
    LongType,
    NestedField,
    PrimitiveType,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    UUIDType,
)

WIDTH = 16
ROW_LINEAGE = {2147483540: "_row_id", 2147483539: "_last_updated_sequence_number"}


def wrong_metrics(table: Table, written_by: str) -> list[str]:
    """What the entries of the data files that one run wrote say wrongly, a line a mistake. Bounds have the default width."""
    found: list[str] = []
    for file in data_files(table):
        if written_by in file.file_path:
            with table.io.new_input(file.file_path).open() as stream:
                raw = stream.read()
            found += [f"{file.file_path}: {what}" for what in _wrong(file, raw, table.schema())]
    return found


def data_files(table: Table) -> Iterator[DataFile]:
    """The live data files of the current snapshot."""
    snapshot = table.current_snapshot()
    for manifest in snapshot.manifests(table.io) if snapshot else ():
        for entry in manifest.fetch_manifest_entry(table.io):
            if entry.data_file.content == DataFileContent.DATA:
                yield entry.data_file


def _wrong(file: DataFile, raw: bytes, schema: Schema) -> Iterator[str]:
    footer = pq.read_metadata(pa.BufferReader(raw))
    rows = pq.read_table(pa.BufferReader(raw))
    starts = []
    for place in range(footer.num_row_groups):
        first = footer.row_group(place).column(0)
        offsets = [offset for offset in (first.dictionary_page_offset, first.data_page_offset) if offset]
        starts.append(min(offsets))
    said = (file.record_count, file.file_size_in_bytes, list(file.split_offsets or []))
    if said != (rows.num_rows, len(raw), starts):
        yield f"rows, bytes and row groups are {(rows.num_rows, len(raw), starts)} and not {said}"
    leaves = dict(_leaves(schema.fields, rows.schema, rows.columns))
    for name, told in (("lower_bounds", file.lower_bounds), ("value_counts", file.value_counts)):
        if more := set(told or ()) - set(leaves) - set(ROW_LINEAGE):
            yield f"{name} are told of {more}, which have no values of their own"
    for number, (kind, values) in leaves.items():
        yield from (f"column {number}: {what}" for what in _wrong_column(file, number, kind, values))


def _leaves(fields: Any, had: Any, columns: Any) -> Iterator[tuple[int, tuple[IcebergType, list[Any]]]]:
    """The values of every column and of every member of a struct, by id. Lists and maps have none of their own."""
    by_id = {int(f.metadata[b"PARQUET:field_id"]): column for f, column in zip(had, columns, strict=True)}
    for field in fields:
        column = by_id[field.field_id]
        column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        if isinstance(field.field_type, StructType):
            yield from _leaves(field.field_type.fields, list(column.type), column.flatten())
        elif isinstance(field.field_type, PrimitiveType):
            yield field.field_id, (field.field_type, _values(field, column))


def _values(field: NestedField, column: Any) -> list[Any]:
    """As bounds have them: times are numbers."""
    if isinstance(field.field_type, TimestampType | TimestamptzType | TimestampNanoType | TimestamptzNanoType):
        column = column.cast(pa.int64())
    elif pa.types.is_date32(column.type):
        column = column.cast(pa.int32())
    elif pa.types.is_time64(column.type):
        column = column.cast(pa.int64())
    values: list[Any] = column.to_pylist()
    if isinstance(field.field_type, UUIDType):
        values = [UUID(bytes=value) if isinstance(value, bytes) else value for value in values]
    return values


def _ordered_otherwise_by_java(uuids: list[UUID]) -> bool:
    """Java compares the two halves of a uuid as signed numbers; the specification compares bytes."""

    def java(one: UUID) -> tuple[int, int]:
        first, second = one.int >> 64, one.int & (2**64 - 1)
        return tuple(half - 2**64 if half >= 2**63 else half for half in (first, second))  # type: ignore[return-value]

    return (min(uuids), max(uuids)) != (min(uuids, key=java), max(uuids, key=java))


def _wrong_column(file: DataFile, number: int, kind: IcebergType, values: list[Any]) -> Iterator[str]:
    nulls = sum(value is None for value in values)
    nans = sum(isinstance(value, float) and math.isnan(value) for value in values)
    said = ((file.value_counts or {}).get(number), (file.null_value_counts or {}).get(number))
    if said != (len(values), nulls):
        yield f"values and nulls are {(len(values), nulls)} and not {said}"
    floating = isinstance(kind, FloatType | DoubleType)
    if (told := (file.nan_value_counts or {}).get(number)) != (nans if floating else None):
        yield f"{nans} are no numbers, and {told} are told"
    real = [value for value in values if value is not None and not (isinstance(value, float) and math.isnan(value))]
    lower, upper = ((bounds or {}).get(number) for bounds in (file.lower_bounds, file.upper_bounds))
    if not real:
        if (lower, upper) != (None, None):
            yield f"there are no values, and bounds {lower!r} and {upper!r} are told"
        return
    if lower is None:
        if not (isinstance(kind, UUIDType) and upper is None and _ordered_otherwise_by_java(real)):
            yield "no lower bound is told"
        return
    of = _number if not isinstance(real[0], str | bytes | float | UUID) and not hasattr(real[0], "as_tuple") else None
    least, most = min(real), max(real)
    low = of(lower) if of else _bound(kind, lower)
    high = None if upper is None else of(upper) if of else _bound(kind, upper)
    if isinstance(least, str | bytes):
        if low != least[:WIDTH]:
            yield f"the least is {least[:40]!r}, and {low!r} is told"
        if len(most) <= WIDTH and high != most:
            yield f"the greatest is {most!r}, and {high!r} is told"
        elif len(most) > WIDTH and not _just_above(high, most):
            yield f"the greatest begins {most[:40]!r}, and {high!r} is told"
    elif (low, high) != (least, most):
        yield f"the values lie in {(least, most)!r}, and {(low, high)!r} is told"


def _number(raw: bytes) -> int:
    return int.from_bytes(raw, "little", signed=True)


def _bound(kind: IcebergType, raw: bytes) -> Any:
    return from_bytes(kind if isinstance(kind, PrimitiveType) else LongType(), raw)


def _just_above(high: Any, most: Any) -> bool:
    """Whether `high` is a beginning of `most` with its last character one higher; None where there is no higher one."""
    if high is None:
        top = 0xFF if isinstance(most, bytes) else 0x10FFFF
        return all((c if isinstance(c, int) else ord(c)) == top for c in most[:WIDTH])
    return len(high) <= WIDTH and bool(high > most) and high[:-1] == most[: len(high) - 1]
