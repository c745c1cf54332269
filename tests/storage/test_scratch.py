"""What is removed beside the one door: names of ours, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from lakewarden.storage.scratch import (
    DECODED,
    TO_DECODE,
    drop_decoder_directory,
    drop_record,
    drop_temporary,
    temporary_name,
)


def test_a_decoders_directory_goes_with_its_files(tmp_path: Path) -> None:
    directory = tmp_path / "lakewarden-avro-x1"
    directory.mkdir()
    for name in (TO_DECODE, DECODED):
        (directory / name).write_bytes(b"x")
    drop_decoder_directory(str(directory))
    assert not directory.exists()
    drop_decoder_directory(str(directory))


def test_a_file_of_somebody_else_stays_in_it(tmp_path: Path) -> None:
    directory = tmp_path / "lakewarden-avro-x1"
    directory.mkdir()
    (directory / "00000-data.parquet").write_bytes(b"x")
    drop_decoder_directory(str(directory))
    assert [path.name for path in directory.iterdir()] == ["00000-data.parquet"]


@pytest.mark.parametrize(
    "drop",
    [
        lambda table: drop_decoder_directory(str(table)),
        lambda table: drop_decoder_directory(f"{table}/"),
        lambda table: drop_temporary(str(table / "in.avro")),
        lambda table: drop_record(str(table), "in.avro"),
    ],
)
def test_other_names_are_refused(tmp_path: Path, drop: Callable[[Path], None]) -> None:
    table = tmp_path / "table"
    table.mkdir()
    (table / "in.avro").write_bytes(b"x")
    with pytest.raises(ValueError, match=r"of ours|a decoder's"):
        drop(table)
    assert (table / "in.avro").exists()


def test_a_temporary_file_goes(tmp_path: Path) -> None:
    file = tmp_path / temporary_name()
    file.write_bytes(b"x")
    drop_temporary(str(file))
    assert not file.exists()
