"""Files that are read one after the other share memory, but never with bytes that somebody still looks at."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from lakewarden.formats.iceberg.compaction.compactor import _DataFiles
from lakewarden.formats.iceberg.data.order import Input
from lakewarden.formats.iceberg.data.source import Sources, some_at_a_time
from lakewarden.model.errors import IncompleteManifestError
from lakewarden.storage.stores import Stores


def inputs_of(base: Path, *sizes: int) -> tuple[Input, ...]:
    found = []
    for number, size in enumerate(sizes):
        path = base / f"{number}"
        path.write_bytes(bytes([number]) * size)
        found.append(Input(f"file://{path}", size, 1, 1))
    return tuple(found)


def test_bytes_that_are_still_looked_at_stay_what_they_were(tmp_path: Path) -> None:
    sizes = (500, 300, 500, 0, 700, 100, 500)
    sources = Sources(_DataFiles(Stores({})), inputs_of(tmp_path, *sizes))
    held = [piece for place, size in enumerate(sizes) for piece in sources.at(place).pieces(0, size)]
    sources.close()
    assert [bytes(piece) for piece in held] == [bytes([number]) * size for number, size in enumerate(sizes)]


def test_memory_is_used_again_when_nobody_looks_at_it(tmp_path: Path) -> None:
    sources = Sources(_DataFiles(Stores({})), inputs_of(tmp_path, *[500] * 20))
    for place in range(20):
        assert sources.at(place).stretch(0, 500) == bytes([place]) * 500
    sources.close()
    assert len(sources._rooms) <= 3


def test_a_file_that_is_shorter_than_its_manifest_says_is_refused(tmp_path: Path) -> None:
    one, other = inputs_of(tmp_path, 10, 10)
    (tmp_path / "1").write_bytes(b"short")
    sources = Sources(_DataFiles(Stores({})), (one, other))
    sources.at(0)
    with pytest.raises(IncompleteManifestError, match="has 5 bytes and should have 10"):
        sources.at(1)
    sources.close()


@pytest.mark.parametrize(("columns", "together"), [(0, 200), (6, 200), (40, 52), (500, 4), (1 << 30, 1)])
def test_of_wide_tables_fewer_files_are_held_at_a_time(tmp_path: Path, columns: int, together: int) -> None:
    """So many that their values can be read together: beyond that, each file would be read by itself."""
    inputs = tuple(replace(one, rows=2_000) for one in inputs_of(tmp_path, *[10] * 200))
    found = [[one for one, _ in some] for some in some_at_a_time(_DataFiles(Stores({})), inputs, columns)]
    assert [one for some in found for one in some] == list(inputs)
    assert len(found[0]) == together
