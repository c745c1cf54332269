"""Files are told apart by their partitions, of however many columns and values these are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from lakewarden.formats.iceberg.manifests.reader import _places

VALUES = st.tuples(st.none() | st.integers(0, 3), st.sampled_from([None, "", "x"]), st.integers(0, 2))


@given(st.lists(VALUES, min_size=1, max_size=30))
def test_each_file_is_at_the_place_of_its_partition(rows: list[Any]) -> None:
    kinds = (pa.int64(), pa.string(), pa.int32())
    columns = {str(place): pa.array([row[place] for row in rows], kind) for place, kind in enumerate(kinds)}
    table = pa.table(columns)
    distinct = table.group_by(table.column_names).aggregate([])
    assert distinct.take(_places(table, distinct)).equals(table)


def test_columns_of_more_combinations_than_there_are_numbers() -> None:
    """Such a table was refused, and its manifests were said to have fields of other kinds."""
    chance = np.random.default_rng(1)
    table = pa.table({str(place): chance.integers(0, 1 << 40, 4_000) for place in range(6)})
    distinct = table.group_by(table.column_names).aggregate([])
    assert distinct.take(_places(table, distinct)).equals(table)
