"""The rows of a Parquet file, whose row groups may not be what they say."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq


def aligned_batches(file: pq.ParquetFile, names: list[str], batch_rows: int) -> Iterator[pa.RecordBatch]:
    """The rows of these columns. Raises ValueError where a row group's columns are not as long as it is.

    One row group after the other: over several, Arrow goes on with a column that is too short in the next one, and values
    of different rows would become one row.
    """
    flat = [place for place in range(len(file.schema)) if not file.schema.column(place).max_repetition_level]
    for number in range(file.metadata.num_row_groups):
        group = file.metadata.row_group(number)
        if any(group.column(place).num_values != group.num_rows for place in flat):
            raise ValueError(f"the columns of row group {number} are of different length")
        rows = 0
        for batch in file.iter_batches(batch_rows, [number], columns=names, use_threads=False):
            rows += batch.num_rows
            yield batch
        if rows != group.num_rows:
            raise ValueError(f"row group {number} has {rows} rows and should have {group.num_rows}")
