"""Buckets that keep the order of their rows: files beside each other become one that has their numbers, and their place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakewarden.formats.paimon.compaction.planned import DATA, DELETES, OTHER, in_order
from lakewarden.model.compaction import GroupFiles
from tests.formats.paimon.compaction.bench import Bench

COLUMNS = pa.schema([("id", pa.int64()), ("v", pa.string())])
ORDERED = {"bucket": "1", "bucket-key": "v", "write-only": "true"}


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """Six commits, the rows of each in an order that nothing but their numbers tells."""
    found = Bench(tmp_path)
    found.create(COLUMNS, ORDERED)
    for number in range(6):
        write(found, 3 * number, *(100 - 10 * number - place for place in range(3)))
    return found


def write(bench: Bench, first: int, *ids: int) -> None:
    """Rows numbered from there on, as Java numbers them: pypaimon gives every file of a bucket the same number."""
    builder = bench.catalog.get_table(bench.name).new_batch_write_builder()
    writer, commit = builder.new_write(), builder.new_commit()
    writer.write_arrow(pa.table({"id": pa.array(ids, pa.int64()), "v": ["same"] * len(ids)}))
    messages = writer.prepare_commit()
    (file,) = (file for message in messages for file in message.new_files)
    file.min_sequence_number, file.max_sequence_number = first, first + len(ids) - 1
    commit.commit(messages)
    writer.close()
    commit.close()


def in_place(bench: Bench) -> list[dict[str, Any]]:
    """The live files in the order in which readers take them."""
    return sorted((entry["_FILE"] for entry in bench.entries()), key=lambda file: file["_MIN_SEQUENCE_NUMBER"])


def read(bench: Bench) -> list[int]:
    """The ids in the order in which Java reads them; pypaimon reads files as manifests name them."""
    directory = Path(bench.location.removeprefix("file://")) / "bucket-0"
    return [i for file in in_place(bench) for i in pq.read_table(directory / file["_FILE_NAME"])["id"].to_pylist()]


def numbers(bench: Bench) -> list[tuple[int, int]]:
    return [(file["_MIN_SEQUENCE_NUMBER"], file["_MAX_SEQUENCE_NUMBER"]) for file in in_place(bench)]


@pytest.mark.parametrize(("first", "last"), [(0, 6), (0, 2), (2, 5), (4, 6)])
def test_a_run_takes_the_place_of_its_files(bench: Bench, first: int, last: int) -> None:
    before, ends = read(bench), numbers(bench)
    run = [file["_FILE_NAME"] for file in in_place(bench)[first:last]]
    prepared = bench.prepared([GroupFiles("g0", tuple(sorted(run)))])
    landed = bench.commit(prepared, bench.answers(prepared))
    assert (landed.files_removed, landed.files_added) == (last - first, 1)
    assert read(bench) == before == [100 - 10 * number - place for number in range(6) for place in range(3)]
    assert numbers(bench) == [*ends[:first], (ends[first][0], ends[last - 1][1]), *ends[last:]]
    write(bench, ends[-1][1] + 1, 7)
    assert read(bench) == [*before, 7]


def live(*rows: tuple[str, int, int | None, int | None]) -> pa.Table:
    names = ("path", "content", "sequence", "last_sequence")
    return pa.table({name: [row[place] for row in rows] for place, name in enumerate(names)})


def places(*rows: tuple[str, int, int | None, int | None]) -> dict[str, int | None]:
    found = in_order(live(*rows))
    return dict(zip(found["path"].to_pylist(), found["sequence"].to_pylist(), strict=True))


def test_places_follow_the_numbers_of_rows() -> None:
    assert places(("b", DATA, 10, 19), ("a", DATA, 0, 9), ("c", DATA, 25, 29)) == {"a": 0, "b": 1, "c": 2}
    assert places(("a", DATA, 0, 9), ("v", DELETES, None, None)) == {"a": 0, "v": None}


def test_what_nobody_here_rewrites_keeps_its_place() -> None:
    assert places(("a", DATA, 0, 9), ("orc", OTHER, 10, 19), ("b", DATA, 20, 29)) == {"a": 0, "b": 2}


def test_files_of_two_writers_that_gave_the_same_numbers_stay() -> None:
    """Whose rows come first, nothing says: no run may decide it, and none reaches across."""
    files = (("a", DATA, 0, 9), ("b", DATA, 10, 19), ("c", DATA, 10, 12), ("d", DATA, 15, 25), ("e", DATA, 26, 30))
    assert places(*files) == {"a": 0, "e": 2}


def test_files_that_share_numbers_are_not_rewritten_together(bench: Bench) -> None:
    """Files of pypaimon, in a plan that was made by hand."""
    for number in range(2):
        bench.write(pa.table({"id": pa.array([number], pa.int64()), "v": ["same"]}))
    assert "not numbered apart" in bench.prepared().dropped["g0"]
