"""The rows of a Parquet file, whose row groups may not be what they say."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.parquet as pq


def aligned_batches(
    file: pq.ParquetFile, names: Sequence[str] | None, batch_rows: int, flat: Sequence[int] | None = None
) -> Iterator[pa.RecordBatch]:
    """The rows of these columns, or of all. Raises ValueError where a row group's columns are not as long as it is.

    One row group after the other: over several, Arrow goes on with a column that is too short in the next one, and values
    of different rows would become one row. `flat` are the places of the columns outside lists, where they are known.
    """
    columns = None if names is None else list(names)
    found, footer = flat_columns(file) if flat is None else flat, file.metadata
    for number in range(footer.num_row_groups):
        group = footer.row_group(number)
        wanted = group.num_rows
        if any(group.column(place).num_values != wanted for place in found):
            raise ValueError(f"the columns of row group {number} are of different length")
        rows = 0
        for batch in _batches(file, number, columns, batch_rows, wanted):
            rows += batch.num_rows
            yield batch
        if rows != wanted:
            raise ValueError(f"row group {number} has {rows} rows and should have {wanted}")


def flat_columns(file: pq.ParquetFile) -> list[int]:
    """The places of the columns that are in no list: these have one value, or null, a row."""
    schema = file.schema
    return [place for place in range(len(schema)) if not schema.column(place).max_repetition_level]


def _batches(
    file: pq.ParquetFile, number: int, columns: list[str] | None, batch_rows: int, rows: int
) -> Iterator[pa.RecordBatch]:
    if rows <= batch_rows:
        # All of it would be one batch, and is cheaper to have at once.
        yield from file.read_row_group(number, columns=columns, use_threads=False).to_batches()
    else:
        yield from file.iter_batches(batch_rows, [number], columns=columns, use_threads=False)
