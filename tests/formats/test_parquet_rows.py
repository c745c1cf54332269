"""Rows of Parquet files are read row group by row group, so that no damage mixes them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakewarden.formats import iceberg, paimon
from lakewarden.formats.iceberg.data.thrift import dumps, loads
from lakewarden.formats.parquet_rows import aligned_batches


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"n": range(100), "t": [str(n) for n in range(100)]}), path, row_group_size=60)
    return path


def test_rows_come_in_their_order_in_batches_of_bounded_length(file: Path) -> None:
    batches = list(aligned_batches(pq.ParquetFile(file), ["n", "t"], 50))
    assert [batch.num_rows for batch in batches] == [50, 10, 40]
    assert pa.Table.from_batches(batches)["t"].to_pylist() == [str(n) for n in range(100)]


def test_columns_of_different_length_are_told(file: Path) -> None:
    data = file.read_bytes()
    start = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    footer, _ = loads(data[start:-8])
    first, second = (group[1].value.values for group in footer[4].value.values)
    first[1], second[1] = second[1], first[1]
    new = dumps(footer)
    file.write_bytes(data[:start] + new + len(new).to_bytes(4, "little") + b"PAR1")
    with pytest.raises(ValueError, match="different length"):
        list(aligned_batches(pq.ParquetFile(file), ["n", "t"], 50))


@pytest.mark.parametrize("package", [iceberg, paimon])
def test_every_rewriting_reads_so(package: object) -> None:
    directory = Path(str(package.__path__[0])) / "data"  # type: ignore[attr-defined]
    texts = {path.name: path.read_text() for path in directory.glob("*.py")}
    reading = {name for name, text in texts.items() if "aligned_batches(" in text}
    assert reading <= {"rewrite.py", "inputs.py"}
    assert reading
    assert not any(
        "iter_batches(" in texts[name] or "read_row_group(" in texts[name] for name in (*reading, "rewrite.py")
    )
