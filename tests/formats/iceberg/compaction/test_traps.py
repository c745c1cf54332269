"""Fifteen ways in which compaction has lost rows, somewhere, each a test.

| trap | what goes wrong | its test |
|---|---|---|
| 1 | equality deletes that came meanwhile are dropped with the files they were about | `test_trap_1…` |
| 2 | new files are as old as the oldest input: a row that was written again is deleted | `test_trap_2…` |
| 3 | a position delete between plan and commit | `test_trap_3…`; in Spark, tests/jobs/compaction/test_meanwhile.py |
| 4 | a delete of all partitions is thought to be about none once the spec changed | `test_trap_4…` |
| 5 | null lists become empty ones | tests/formats/iceberg/data/test_projection.py `test_null_is_not_empty_at_any_depth` |
| 6 | bounds over those row groups alone that note theirs | `test_trap_6…` |
| 7 | row ids counted after the deleted rows are gone | `test_trap_7…`; in Spark, the history `vectors_and_values_v3` |
| 8 | null keys of equality deletes delete nothing | `test_trap_8…` |
| 9 | columns found by name | `test_trap_9…` |
| 10 | values that only the partition tells are lost | tests/formats/iceberg/compaction/test_imports.py |
| 11 | a sort order that the new file does not have | `test_trap_11…`; of inputs that have one, the history `once_sorted` |
| 12 | the next plan rewrites what the last one wrote | tests/model/test_compaction.py, and every history in tests/jobs/compaction |
| 13 | killed after data, manifests, swap, answer | `test_trap_13…` |
| 14 | a worker that slept past its lease; a catalog that refuses what it did | `test_trap_14…` |
| 15 | memory that grows with files, deletes or rows | tests/formats/iceberg/data/test_memory.py |

Rows are read by hand (by_hand.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DoubleType, LongType, NestedField, StringType

from lakewarden.formats.iceberg.commit.versions import MovedOnError, SqlVersions
from lakewarden.formats.iceberg.data.applicable import LiveFile
from lakewarden.formats.iceberg.data.columns import arrow_schema, lineage_columns
from lakewarden.formats.iceberg.data.deletes import FILE_PATH, POS
from lakewarden.formats.iceberg.data.order import VECTOR, DeleteFile, Input, Order
from lakewarden.formats.iceberg.data.rewrite import rewrite
from lakewarden.formats.iceberg.manifests.files import DELETES
from lakewarden.model.compaction import GroupLease, Prepared
from lakewarden.model.errors import LeaseLostError
from tests.formats.iceberg.compaction.bench import POINTER, POSITION, Bench
from tests.formats.iceberg.compaction.by_hand import rows_by_hand
from tests.formats.iceberg.data.test_deletes import vector
from tests.jobs.compaction.true_metrics import data_files, wrong_metrics

COLUMNS = Schema(NestedField(1, "id", LongType()), NestedField(2, "part", StringType()))
BY_PART = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "part"))

Rows = list[tuple[Any, ...]]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def longs(*values: int | None) -> pa.Array:
    return pa.array(values, pa.int64())


def put(bench: Bench, *ids: int | None, part: str = "a") -> None:
    bench.table.append(pa.table({"id": longs(*ids), "part": pa.array([part] * len(ids), pa.string())}))


def delete(bench: Bench, *ids: int | None) -> None:
    bench.add_delete({("id", 1): longs(*ids)}, bench.live()[0])


def delete_place(bench: Bench, data: LiveFile, place: int) -> None:
    bench.add_delete({("file_path", FILE_PATH): pa.array([data.path]), ("pos", POS): longs(place)}, data, POSITION)


def ids(bench: Bench) -> list[Any]:
    return [row[0] for row in rows_by_hand(bench)]


def test_trap_1_deletes_by_value_that_came_meanwhile_still_delete(bench: Bench) -> None:
    bench.make(COLUMNS)
    put(bench, 1, 2, 3)
    put(bench, 4, 5, 6)
    delete(bench, 1)
    ready = bench.prepare(bench.live())
    answers = bench.rewrite(ready)
    delete(bench, 2)
    delete(bench, 5)
    before = rows_by_hand(bench)
    assert bench.commit(ready, answers).groups == ["g0"]
    assert rows_by_hand(bench) == before
    assert (ids(bench), len(bench.live())) == ([3, 4, 6], 1)
    # The one that was applied is gone, the two that came since are not.
    assert len(bench.live(DELETES)) == 2


@pytest.mark.parametrize("older", [False, True])
def test_trap_2_a_row_that_was_written_again_after_its_delete_stays(bench: Bench, older: bool) -> None:
    """Also where the delete has to stay, for an older file that nobody rewrites."""
    bench.make(COLUMNS)
    put(bench, 1, 2)
    if older:
        put(bench, 1, 4)
    delete(bench, 1)
    put(bench, 1, 3)
    ready = bench.prepare([one for one in bench.live() if one.sequence != 2 or not older])
    answers = bench.rewrite(ready)
    # Something else was committed since: the new file must not be younger than the deletes to come either.
    delete(bench, 3)
    assert bench.commit(ready, answers).groups == ["g0"]
    assert sorted(ids(bench)) == ([1, 2, 4] if older else [1, 2])
    assert len(bench.live(DELETES)) == (2 if older else 1)


@pytest.mark.parametrize("carried", [True, False])
def test_trap_3_rows_that_were_deleted_meanwhile_stay_deleted(
    bench: Bench, carried: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By deletes of the new file in the same commit; or their group is dropped, and the others land."""
    if not carried:
        monkeypatch.setattr("lakewarden.formats.iceberg.compaction.carried.MOST_BYTES", 0)
    bench.make(COLUMNS, BY_PART)
    for first in (0, 10):
        put(bench, first, first + 1, part="a")
        put(bench, first + 5, first + 6, part="b")
    groups = [[one for one in bench.live() if one.file["partition"] == {"part": part}] for part in "ab"]
    ready = bench.prepare(*groups)
    answers = bench.rewrite(ready)
    delete_place(bench, groups[0][0], 1)
    before = rows_by_hand(bench)
    landed = bench.commit(ready, answers)
    assert (landed.groups, list(landed.dropped)) == ((["g0", "g1"], []) if carried else (["g1"], ["g0"]))
    assert rows_by_hand(bench) == before
    assert len(before) == 7


def test_trap_4_a_delete_of_every_partition_stays_while_any_spec_has_older_rows(bench: Bench) -> None:
    bench.make(COLUMNS)
    put(bench, 1, 2)
    with bench.table.update_spec() as change:
        change.add_identity("part")
    put(bench, 1, 3)
    delete_from = next(one for one in bench.live() if one.spec == 0)
    bench.add_delete({("id", 1): longs(1)}, delete_from)
    assert ids(bench) == [2, 3]
    for spec, left in ((0, 1), (1, 0)):
        some = [one for one in bench.live() if one.spec == spec]
        assert bench.compact(some, run=f"run{spec}").groups == ["g0"]
        assert ids(bench) == [2, 3]
        assert len(bench.live(DELETES)) == left


@pytest.mark.parametrize("row_groups", [1, 5])
def test_trap_6_bounds_hold_what_no_footer_notes(
    bench: Bench, row_groups: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Texts of more than 4 KB, nulls alone, no numbers alone: beside ordinary rows, in row groups of their own or not."""
    bench.make(
        Schema(NestedField(1, "s", StringType()), NestedField(2, "d", DoubleType()), NestedField(3, "n", LongType()))
    )
    if row_groups > 1:
        monkeypatch.setattr("lakewarden.formats.new_files.MOST_ROWS", 1)
    nan = float("nan")
    for s, d, n in (("a", nan, None), ("b", nan, None), ("z" * 5000, 1.5, 3), (None, None, None), ("", -0.0, -3)):
        bench.table.append(pa.table({"s": pa.array([s], pa.string()), "d": pa.array([d], pa.float64()), "n": longs(n)}))
    assert bench.compact(bench.live()).groups == ["g0"]
    (file,) = data_files(bench.table)
    assert wrong_metrics(bench.table, "/run-g0") == []
    assert len(file.split_offsets or ()) == row_groups
    assert len(bench.table.scan("s > 'y'").to_arrow()) == 1


def test_trap_7_rows_keep_the_ids_that_they_had_before_others_were_deleted(tmp_path: Path) -> None:
    """Version 3, a vector on the first row; one row has moved before and stores its own id."""
    columns = {"type": "struct", "fields": [{"id": 1, "name": "id", "type": "long", "required": False}]}
    schema = pa.schema([*arrow_schema(columns), *lineage_columns()])
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table([longs(7, 8, 9), longs(None, None, 55), longs(None, None, 2)], schema=schema), sink)
    files = _Memory({"data": sink.getvalue().to_pybytes(), "vector": vector([0])})
    length = len(files.held["vector"])
    deletion = DeleteFile("file:///vector", VECTOR, length, 1, (), 0, length)
    order = Order(
        "g",
        3,
        columns,
        (Input("file:///data", len(files.held["data"]), 3, 4, 100, (deletion,)),),
        "file:///new",
        1 << 29,
    )
    done = rewrite(order, files, tmp_path)
    assert (done.code, done.rows_deleted) == (None, 1)
    (new,) = done.files
    found = pq.read_table(pa.BufferReader(files.held[new.path.removeprefix("file:///")])).to_pydict()
    assert found == {"id": [8, 9], "_row_id": [101, 55], "_last_updated_sequence_number": [4, 2]}


@dataclass
class _Memory:
    """Stores of a few objects."""

    held: dict[str, bytes]

    def get(self, uri: str) -> bytes:
        return self.held[uri.removeprefix("file:///")]

    def get_range(self, uri: str, start: int, length: int) -> bytes:
        return self.get(uri)[start : start + length]

    def put_stream(self, uri: str, pieces: Iterator[bytes]) -> None:
        self.held[uri.removeprefix("file:///")] = b"".join(pieces)


def test_trap_8_null_deletes_null_and_nothing_else(bench: Bench) -> None:
    bench.make(COLUMNS)
    put(bench, 1, None, 2)
    put(bench, None, 3)
    bench.add_delete({("id", 1): longs(None, 2), ("part", 2): pa.array(["a", None])}, bench.live()[0])
    before = rows_by_hand(bench)
    assert bench.compact(bench.live()).groups == ["g0"]
    assert rows_by_hand(bench) == before
    assert ids(bench) == [1, 2, 3]


def test_trap_9_a_column_of_an_old_name_is_another_column(bench: Bench) -> None:
    bench.make(COLUMNS)
    put(bench, 1, part="old")
    for change_it in (lambda c: c.delete_column("part"), lambda c: c.add_column("part", StringType())):
        with bench.table.update_schema(allow_incompatible_changes=True) as change:
            change_it(change)
    put(bench, 2, part="new")
    assert bench.compact(bench.live()).groups == ["g0"]
    assert rows_by_hand(bench) == [(1, None), (2, "new")]


def test_trap_11_files_that_are_not_sorted_do_not_say_so(bench: Bench) -> None:
    bench.make(COLUMNS)
    put(bench, 2, 9)
    put(bench, 1, 5)
    assert bench.compact(bench.live()).groups == ["g0"]
    assert [file.sort_order_id for file in data_files(bench.table)] == [0]
    numbers = [row["id"] for row in bench.table.scan().to_arrow().to_pylist()]
    assert numbers != sorted(numbers)


class _KilledError(BaseException):
    """As if the process had ended here."""


def _killed(real: Callable[..., Any], *, done: bool) -> Callable[..., Any]:
    def then(*given: Any) -> Any:
        if done:
            real(*given)
        raise _KilledError

    return then


@pytest.mark.parametrize("after", ["data", "manifests", "swap", "answer"])
def test_trap_13_killed_at_any_point_and_taken_up_again(
    bench: Bench, after: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.make(COLUMNS)
    for first in (0, 10):
        put(bench, first, first + 1)
    delete(bench, 10)
    expected, snapshots = rows_by_hand(bench), len(bench.document["snapshots"])
    group = bench.live()
    with monkeypatch.context() as patched:
        if after == "manifests":
            patched.setattr(SqlVersions, "add", _killed(SqlVersions.add, done=False))
        elif after == "swap":
            patched.setattr(SqlVersions, "add", _killed(SqlVersions.add, done=True))
        ready = bench.prepare(group)
        answers = bench.rewrite(ready)
        if after in ("manifests", "swap"):
            with pytest.raises(_KilledError):
                bench.commit(ready, answers)
        elif after == "answer":
            bench.commit(ready, answers)
    assert rows_by_hand(bench) == expected
    again = bench.prepare(group)
    if after in ("swap", "answer"):
        assert (again.done, list(again.orders)) == (["g0"], [])
    else:
        assert bench.commit(again, bench.rewrite(again)).groups == ["g0"]
    assert rows_by_hand(bench) == expected
    assert (len(bench.live()), len(bench.document["snapshots"])) == (1, snapshots + 1)


def _slept(bench: Bench) -> tuple[Prepared, dict[str, str], Rows]:
    """A worker that has rewritten a group and not committed; and the rows."""
    bench.make(COLUMNS)
    for first in (0, 10):
        put(bench, first, first + 1)
    ready = bench.prepare(bench.live())
    return ready, bench.rewrite(ready), rows_by_hand(bench)


def test_trap_14_a_worker_that_slept_while_a_rival_committed_commits_nothing(bench: Bench) -> None:
    ready, answers, expected = _slept(bench)
    rival = bench.prepare(bench.live(), run="rival")
    leases = {"g0": GroupLease("run/g0", 2)}
    now = bench.document["last-updated-ms"]
    told = {"lakewarden.run": "rival"}
    bench.compactor.commit(POINTER, rival, bench.rewrite(rival), leases, told, now, lambda: None)
    landed = bench.commit(ready, answers)
    assert landed.groups in ((), [])
    assert isinstance(landed.failed, LeaseLostError)
    assert rows_by_hand(bench) == expected
    assert len(bench.live()) == 1


def test_trap_14_a_catalog_that_refuses_what_it_has_done_is_looked_at_again(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A proxy sends the request again, and the second one fails on what the first one did: 409."""
    ready, answers, expected = _slept(bench)
    real, calls = SqlVersions.add, []

    def add(*given: Any) -> None:
        calls.append(given)
        real(*given)
        raise MovedOnError("somebody else was quicker")

    monkeypatch.setattr(SqlVersions, "add", add)
    snapshots = len(bench.document["snapshots"])
    assert bench.commit(ready, answers).groups == ["g0"]
    assert (len(calls), len(bench.document["snapshots"])) == (1, snapshots + 1)
    assert rows_by_hand(bench) == expected
