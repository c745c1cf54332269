"""Rows in a table's sort order, however many: sorted in memory piece by piece, set aside on disk, and merged.

Arrow sorts; no row is compared by Python. Each key is turned so that Arrow's order is the specification's: nulls where the
order wants them, and floating-point numbers from the negative ones that are none up to the positive ones that are none.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakewarden.formats.iceberg.data.columns import id_of
from lakewarden.model.errors import LeftToEngineError

MEMORY = 256 << 20  # decoded bytes that are sorted at once
MERGED_ROWS = 1 << 18  # rows of all pieces together that are merged at once
_TRUNCATE = re.compile(r"truncate\[(\d+)\]")
_MICROS = {"hour": 3_600_000_000, "day": 86_400_000_000}

Json = Mapping[str, Any]
Key = Callable[[pa.Array], pa.Array]


def check_sortable(order: Json, schema: pa.Schema) -> None:
    """Raise LeftToEngineError for a sort order that rows cannot be brought into here."""
    for field in order["fields"]:
        found = _field(schema, int(field["source-id"]))
        if found is None or pa.types.is_nested(found.type):
            raise _unsupported(field, "a column that is not there to sort by")
        _key(field, found.type)


def sorted_columns(order: Json, schema: pa.Schema) -> tuple[str, ...]:
    """The columns, by name with dots, that come in their own order when rows come in this one."""
    names = dict(_names(schema))
    keeping = [field for field in order["fields"] if not field["transform"].startswith("bucket")]
    return tuple(names[int(field["source-id"])] for field in keeping)


class Sorter:
    """Takes rows in and gives them back in order. At most `memory` bytes of them, and a piece of each run, are in memory."""

    def __init__(
        self,
        order: Json,
        schema: pa.Schema,
        scratch: Path,
        memory: int = MEMORY,
        merged_rows: int = MERGED_ROWS,
    ) -> None:
        check_sortable(order, schema)
        self._order, self._schema, self._scratch = order, schema, scratch
        self._memory, self._merged_rows = memory, merged_rows
        self._waiting: list[pa.RecordBatch] = []
        self._bytes = 0
        self._runs: list[Path] = []

    def add(self, batch: pa.RecordBatch) -> None:
        if batch.num_rows:
            self._waiting.append(batch)
            self._bytes += batch.nbytes
        if self._bytes >= self._memory:
            self._set_aside()

    def rows(self) -> Iterator[pa.RecordBatch]:
        """Every row, in order."""
        if not self._runs:
            yield from self._in_order().to_batches(max_chunksize=1 << 16)
            return
        if self._waiting:
            self._set_aside()
        yield from self._merged()

    def _in_order(self) -> pa.Table:
        table = pa.Table.from_batches(self._waiting, schema=self._schema)
        self._waiting, self._bytes = [], 0
        return table.take(self._places(table))

    def _set_aside(self) -> None:
        path = self._scratch / f"run-{len(self._runs)}.arrow"
        options = pa.ipc.IpcWriteOptions(compression="lz4")
        with pa.OSFile(str(path), "wb") as out, pa.ipc.new_file(out, self._schema, options=options) as file:
            file.write_table(self._in_order(), max_chunksize=1 << 14)
        self._runs.append(path)

    def _merged(self) -> Iterator[pa.RecordBatch]:
        """The rows of all runs. Up to the least of the last rows that are read of each run, no run can still have a lesser one."""
        runs = [_Run(path) for path in self._runs]
        step = max(1, self._merged_rows // len(runs))
        held: pa.Table = self._schema.empty_table()
        owners = np.empty(0, np.int64)
        while True:
            for number, run in enumerate(runs):
                if not run.done and not (owners == number).any():
                    more = run.read(step)
                    held = pa.concat_tables([held, more])
                    owners = np.concatenate([owners, np.full(more.num_rows, number)])
            places = np.asarray(self._places(held))
            held, owners = held.take(pa.array(places)), owners[places]
            ends = [int(np.flatnonzero(owners == n)[-1]) for n, run in enumerate(runs) if not run.done]
            safe = min(ends) + 1 if ends else held.num_rows
            yield from held.slice(0, safe).combine_chunks().to_batches(max_chunksize=1 << 16)
            held, owners = held.slice(safe).combine_chunks(), owners[safe:]
            if not ends:
                return

    def _places(self, table: pa.Table) -> pa.Array:
        """The rows' places in order."""
        keys: list[Any] = []
        directions: list[tuple[str, str]] = []
        for number, field in enumerate(self._order["fields"]):
            column = _column(table, int(field["source-id"]))
            key = _key(field, column.type)
            value = key(column)
            first = field["null-order"] == "nulls-first"
            keys += [pc.is_null(value), value]
            directions += [
                (f"{number} null", "descending" if first else "ascending"),
                (f"{number}", "ascending" if field["direction"] == "asc" else "descending"),
            ]
        return pc.sort_indices(pa.table(keys, names=[name for name, _ in directions]), sort_keys=directions)


class _Run:
    """A sorted run on disk, read from its beginning."""

    def __init__(self, path: Path) -> None:
        self._file = pa.ipc.open_file(pa.memory_map(str(path)))
        self._next = 0

    @property
    def done(self) -> bool:
        return bool(self._next >= self._file.num_record_batches)

    def read(self, rows: int) -> pa.Table:
        """About so many rows; at least one batch."""
        found = [self._batch()]
        while not self.done and sum(batch.num_rows for batch in found) < rows:
            found.append(self._batch())
        return pa.Table.from_batches(found)

    def _batch(self) -> pa.RecordBatch:
        self._next += 1
        return self._file.get_batch(self._next - 1)


def _field(fields: Any, number: int) -> pa.Field | None:
    for found in fields:
        if id_of(found) == number:
            return found
        if pa.types.is_struct(found.type) and (within := _field(found.type, number)) is not None:
            return within
    return None


def _names(fields: Any, above: str = "") -> Iterator[tuple[int, str]]:
    for found in fields:
        if (number := id_of(found)) is not None:
            yield number, f"{above}{found.name}"
        if pa.types.is_struct(found.type):
            yield from _names(found.type, f"{above}{found.name}.")


def _column(table: pa.Table, number: int) -> pa.Array:
    """A column by its id, also within structs, whose members are missing where the struct is."""

    def within(fields: Sequence[pa.Field], arrays: Sequence[pa.Array]) -> pa.Array | None:
        for found, array in zip(fields, arrays, strict=True):
            if id_of(found) == number:
                return array
            if pa.types.is_struct(found.type):
                inner = within(list(found.type), array.flatten())
                if inner is not None:
                    return inner
        return None

    whole = [_one(column) for column in table.columns]
    found = within(list(table.schema), whole)
    assert found is not None
    return found


def _one(column: pa.ChunkedArray) -> pa.Array:
    found = column.combine_chunks()
    return pa.concat_arrays(found.chunks) if isinstance(found, pa.ChunkedArray) else found


def _key(field: Json, kind: pa.DataType) -> Key:
    """How a sort field's values become what Arrow sorts by. Raises LeftToEngineError."""
    transform = str(field["transform"])
    if field["direction"] not in ("asc", "desc") or field["null-order"] not in ("nulls-first", "nulls-last"):
        raise _unsupported(field, "an order that nobody knows")
    if transform == "identity":
        return _total_order if pa.types.is_floating(kind) else _plain
    if transform == "void":
        return lambda array: pa.nulls(len(array), pa.int32())
    if found := _TRUNCATE.fullmatch(transform):
        return _truncated(int(found[1]), kind, field)
    if transform in ("year", "month", "day", "hour"):
        return _period(transform, kind, field)
    raise _unsupported(field, f"the transform {transform}")


def _plain(array: pa.Array) -> pa.Array:
    """As it is; truth as a number, since Arrow does not sort it in every form."""
    return array.cast(pa.int8()) if pa.types.is_boolean(array.type) else array


def _total_order(array: pa.Array) -> pa.Array:
    """Numbers whose order is that of the floating-point ones: -NaN, negative, -0, +0, positive, NaN."""
    values = pc.fill_null(array, 0.0).to_numpy(zero_copy_only=False)
    bits = values.view(np.int64 if array.type.bit_width == 64 else np.int32).astype(np.int64)
    mask = np.iinfo(np.int64 if array.type.bit_width == 64 else np.int32).max
    return pa.array(np.where(bits < 0, bits ^ mask, bits), pa.int64(), mask=np.asarray(array.is_null()))


def _truncated(width: int, kind: pa.DataType, field: Json) -> Key:
    if pa.types.is_integer(kind):
        return lambda array: _floored(array.cast(pa.int64()), width)
    if pa.types.is_string(kind):
        return lambda array: pc.utf8_slice_codeunits(array, 0, width)
    if pa.types.is_binary(kind):
        return lambda array: pc.binary_slice(array, 0, width)
    raise _unsupported(field, f"truncated values of type {kind}")


def _period(transform: str, kind: pa.DataType, field: Json) -> Key:
    """Dates and times by the year, month, day or hour that they lie in, of UTC."""
    stamped = pa.types.is_timestamp(kind)
    if not stamped and not (pa.types.is_date32(kind) and transform != "hour"):
        raise _unsupported(field, f"the {transform} of {kind}")
    if transform in _MICROS and stamped:
        unit = _MICROS[transform] * (1000 if kind.unit == "ns" else 1)
        return lambda array: _floored(array.cast(pa.int64()), unit)
    if transform == "day":
        return _plain
    return lambda array: _months(array, 12 if transform == "year" else 1)


def _months(array: pa.Array, by: int) -> pa.Array:
    """Months since 1970, or years, by numpy: Arrow's own calendar ends before times do."""
    unit = array.type.unit if pa.types.is_timestamp(array.type) else "D"
    integers = array.cast(pa.int32()).cast(pa.int64()) if unit == "D" else array.cast(pa.int64())
    moments = pc.fill_null(integers, 0).to_numpy(zero_copy_only=False).astype(f"datetime64[{unit}]")
    months = moments.astype("datetime64[M]").astype(np.int64) // by
    return pa.array(months, mask=np.asarray(array.is_null()))


def _floored(array: pa.Array, unit: int) -> pa.Array:
    """The multiple of a unit at or below each number, counted in units."""
    values = pc.fill_null(array, 0).to_numpy(zero_copy_only=False) // unit
    return pa.array(values, pa.int64(), mask=np.asarray(array.is_null()))


def _unsupported(field: Json, what: str) -> LeftToEngineError:
    return LeftToEngineError(
        f"its sort order goes by {what} (column {field['source-id']}), which this version does not sort by; "
        "nothing was rewritten"
    )
