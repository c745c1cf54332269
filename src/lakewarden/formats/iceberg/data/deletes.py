"""Which rows of a file are deleted: by position, by deletion vector, by equality.

Null equals null in an equality delete. Every set of deletes is read whole and proven by its own count before it is used:
a delete that is lost brings a row back.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from lakewarden.formats.iceberg.data.columns import id_of
from lakewarden.model.errors import IncompleteManifestError, UnsupportedTableError

FILE_PATH, POS = 2147483546, 2147483545
MAGIC = bytes.fromhex("d1d33964")
_LENGTH, _CRC = 4, 4

Positions = NDArray[np.int64]


def vector_positions(blob: bytes, rows: int, name: str) -> Positions:
    """The positions in a deletion vector, in order. Raises IncompleteManifestError unless it is whole.

    A blob is its length, a magic number, a bitmap in Roaring's portable form, and a checksum over the last two but one.
    """
    from pyroaring import BitMap64

    body = blob[_LENGTH:-_CRC]
    length = int.from_bytes(blob[:_LENGTH], "big")
    checksum = int.from_bytes(blob[-_CRC:], "big")
    if len(blob) < _LENGTH + len(MAGIC) + _CRC or length != len(body) or body[: len(MAGIC)] != MAGIC:
        raise IncompleteManifestError(f"the deletion vector {name} is cut or no vector; nothing was rewritten")
    if zlib.crc32(body) != checksum:
        raise IncompleteManifestError(f"the deletion vector {name} has another checksum; nothing was rewritten")
    try:
        found = BitMap64.deserialize(body[len(MAGIC) :])
    except Exception as error:  # whatever a damaged bitmap makes its decoder raise
        raise IncompleteManifestError(f"the deletion vector {name} cannot be read ({error})") from error
    # Counted before they are spelled out: a few bytes of a bitmap can stand for billions of positions.
    if len(found) != rows:
        raise IncompleteManifestError(f"the deletion vector {name} has {len(found)} positions and should have {rows}")
    return np.fromiter(found, np.int64, rows)


def file_positions(data: pa.Buffer, paths: Iterable[str], rows: int, name: str) -> Mapping[str, Positions]:
    """The positions that a file of position deletes names, by data file, for these data files alone."""
    table = _table(data, (FILE_PATH, POS), ("file_path", "pos"), rows, name)
    wanted = list(dict.fromkeys(paths))
    # Sorted once, however many data files are asked for.
    of_file = pc.index_in(table["file_path"], value_set=pa.array(wanted, pa.string()))
    files = pc.fill_null(of_file, len(wanted)).to_numpy()
    positions = table["pos"].to_numpy().astype(np.int64)
    order = np.lexsort((positions, files))
    files, positions = files[order], positions[order]
    starts = np.searchsorted(files, np.arange(len(wanted) + 1))
    return {path: positions[starts[place] : starts[place + 1]] for place, path in enumerate(wanted)}


def _table(data: pa.Buffer, ids: Sequence[int], names: Sequence[str], rows: int, name: str) -> pa.Table:
    """Columns of a Parquet file by id, or by name in files without ids. Raises IncompleteManifestError."""
    try:
        file = pq.ParquetFile(pa.BufferReader(data), pre_buffer=False, page_checksum_verification=True)
        table = file.read(use_threads=False)
    except Exception as error:  # whatever a damaged file makes its decoder raise
        raise IncompleteManifestError(f"{name} cannot be read ({type(error).__name__}: {error})") from error
    if table.num_rows != rows:
        raise IncompleteManifestError(f"{name} has {table.num_rows} deletes and should have {rows}")
    by_id = {number: place for place, field in enumerate(table.schema) if (number := id_of(field)) is not None}
    places = [by_id.get(number, table.schema.get_field_index(label)) for number, label in zip(ids, names, strict=True)]
    if any(place < 0 for place in places):
        raise IncompleteManifestError(f"{name} lacks a column of {', '.join(names)}; nothing was rewritten")
    return pa.table({label: _plain(table.column(place)) for label, place in zip(names, places, strict=True)})


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return column.cast(pa.string()) if pa.types.is_large_string(column.type) else column


@dataclass(frozen=True)
class EqualityKeys:
    """Rows of equality deletes that go by the same columns, ready to be looked for.

    Each column's values are numbered, and a row's numbers make one number: then a look-up is one, whatever the columns.
    `ranks` has for each key the highest rank of a file that deletes it.
    """

    fields: tuple[pa.Field, ...]
    values: tuple[pa.Array, ...]
    keys: pa.Array
    ranks: NDArray[np.int64]

    @staticmethod
    def of(fields: Sequence[pa.Field], rows: pa.Table, ranks: NDArray[np.int64]) -> EqualityKeys:
        """`rows` has a column for each field, under the same types, and each row the rank of the file that it is in."""
        for field in fields:
            if pa.types.is_floating(field.type) or pa.types.is_nested(field.type):
                raise UnsupportedTableError(
                    f"an equality delete goes by {field.name}, a column of type {field.type}, whose equal values are not "
                    "told apart safely; nothing was rewritten",
                    hint="Compact this table with Iceberg's own rewrite_data_files.",
                )
        values = tuple(_distinct(rows.column(place)) for place in range(len(fields)))
        if _combinations(values) > np.iinfo(np.int64).max:
            raise UnsupportedTableError("equality deletes have too many columns to be numbered; nothing was rewritten")
        numbers = _numbered([column.combine_chunks() for column in rows.columns], values)
        keys = pc.unique(numbers)
        highest = np.full(len(keys), -1, np.int64)
        np.maximum.at(highest, pc.index_in(numbers, value_set=keys).to_numpy(), ranks)
        return EqualityKeys(tuple(fields), values, keys, highest)

    def hits(self, columns: Sequence[pa.Array], least: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether each row is deleted, by its values of the fields, by a file whose rank is at least its own in `least`."""
        places = pc.index_in(_numbered(columns, self.values), value_set=self.keys, skip_nulls=True)
        ranks = np.append(self.ranks, -1)[pc.fill_null(places, len(self.keys)).to_numpy()]
        return np.asarray(ranks >= least)


def _distinct(column: pa.ChunkedArray) -> pa.Array:
    return pc.unique(column) if len(column) else pa.array([], column.type)


def _combinations(values: Sequence[pa.Array]) -> int:
    product = 1
    for column in values:
        product *= max(1, len(column))
    return product


def _numbered(columns: Sequence[Any], values: Sequence[pa.Array]) -> pa.Array:
    """One number for each row, null where a column has a value that no delete has."""
    number: Any = pa.repeat(pa.scalar(0, pa.int64()), len(columns[0]))
    for column, known in zip(columns, values, strict=True):
        place = pc.index_in(column, value_set=known, skip_nulls=False).cast(pa.int64())
        number = pc.add(pc.multiply(number, max(1, len(known))), place)
    return number
