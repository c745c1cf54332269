"""Writers and groups in any order: whatever happens between the reading of a group and its commit, the rows are the model's."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType

from lakewarden.formats.iceberg.data.applicable import LiveFile
from lakewarden.formats.iceberg.data.deletes import FILE_PATH, POS
from lakewarden.formats.iceberg.manifests.files import DELETES
from lakewarden.model.compaction import GroupFiles, Prepared
from tests.formats.iceberg.compaction.bench import POINTER, POSITION, Bench
from tests.support.lakes import local_path

COLUMNS = Schema(NestedField(1, "id", LongType()), NestedField(2, "part", StringType()))
BY_PART = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "part"))
PARTS = st.sampled_from("ab")
KEYS = st.integers(0, 5)
Row = tuple[int, str]


@dataclass
class Work:
    """A group on its way: read, then rewritten, then committed or given up."""

    run: str
    ready: Prepared
    answers: dict[str, str] | None = None


class Partitioned(RuleBasedStateMachine):
    """A table beside what its rows must be. A row is counted, for the same may be there twice."""

    partitioned = True

    def __init__(self) -> None:
        super().__init__()
        self._scratch = tempfile.TemporaryDirectory()
        self.bench = Bench(Path(self._scratch.name))
        self.bench.make(COLUMNS, BY_PART if self.partitioned else None)
        self.rows: list[Row] = []
        self.history: dict[int, list[Row]] = {}
        self.works: list[Work] = []
        self.runs = self.landed = 0
        self.append([(0, "a")])
        self.append([(1, "a")])

    def teardown(self) -> None:
        self._scratch.cleanup()

    @property
    def table(self) -> Table:
        return self.bench.table

    def remember(self) -> None:
        self.history[int(self.bench.document["current-snapshot-id"])] = list(self.rows)

    @rule(rows=st.lists(st.tuples(KEYS, PARTS), min_size=1, max_size=3))
    def append(self, rows: list[Row]) -> None:
        ids, parts = pa.array([row[0] for row in rows], pa.int64()), [row[1] for row in rows]
        columns = {"id": ids, "part": parts}
        if "more" in self.table.schema().column_names:
            columns["more"] = pa.array([None] * len(rows), pa.int64())
        self.table.append(pa.table(columns))
        self.rows += rows
        self.remember()

    @rule(key=KEYS)
    def delete_by_copy(self, key: int) -> None:
        """As PyIceberg deletes: files are written anew without the rows."""
        if any(row[0] == key for row in self.rows) and not self.bench.live(DELETES):
            self.table.delete(f"id = {key}")
            self.rows = [row for row in self.rows if row[0] != key]
            self.remember()

    @rule(key=KEYS, pick=st.integers(0, 100))
    def delete_by_value(self, key: int, pick: int) -> None:
        """An equality delete in the partition of some file; without partitions it is for all files."""
        files = self.bench.live()
        if not files:
            return
        like = files[pick % len(files)]
        self.bench.add_delete({("id", 1): pa.array([key], pa.int64())}, like)
        part = like.file["partition"].get("part") if self.partitioned else None
        self.rows = [row for row in self.rows if row[0] != key or part not in (None, row[1])]
        self.remember()

    @rule(key=KEYS, part=PARTS)
    def upsert(self, key: int, part: str) -> None:
        """As a stream does it: the key is deleted by value, and the row written again."""
        here = [one for one in self.bench.live() if one.file["partition"].get("part", part) == part]
        if here:
            self.bench.add_delete({("id", 1): pa.array([key], pa.int64())}, here[0])
            self.rows = [row for row in self.rows if row[0] != key or (self.partitioned and row[1] != part)]
            self.remember()
        self.append([(key, part)])

    @rule(pick=st.integers(0, 100), named=st.booleans())
    def delete_by_position(self, pick: int, named: bool) -> None:
        """A row of some file that is not deleted yet."""
        left = [(one, place, row) for one in self.bench.live() for place, row in self.left_of(one)]
        if not left:
            return
        one, place, row = left[pick % len(left)]
        columns = {("file_path", FILE_PATH): pa.array([one.path]), ("pos", POS): pa.array([place], pa.int64())}
        more: dict[str, Any] = {"referenced_data_file": one.path} if named else {}
        self.bench.add_delete(columns, one, POSITION, **more)
        self.rows.remove(row)
        self.remember()

    @rule(pick=st.integers(0, 100))
    def roll_back(self, pick: int) -> None:
        """To an ancestor; what came since stays in the list of snapshots."""
        found, number = [], self.bench.document["current-snapshot-id"]
        parents = {s["snapshot-id"]: s.get("parent-snapshot-id") for s in self.bench.document["snapshots"]}
        while number is not None:
            # PyIceberg's own delete is two snapshots, and nobody knows the rows of the first.
            found += [number] if number in self.history else []
            number = parents[number]
        target = found[min(pick % 4, len(found) - 1)]

        def back(document: dict[str, Any]) -> None:
            document["current-snapshot-id"] = target
            document["refs"] = {**document["refs"], "main": {"snapshot-id": target, "type": "branch"}}

        self.bench.change(back)
        self.rows = list(self.history[target])

    @rule()
    def add_column(self) -> None:
        if "more" not in self.table.schema().column_names:
            with self.table.update_schema() as change:
                change.add_column("more", LongType())

    @rule(part=PARTS, some=st.integers(1, 7))
    def read_group(self, part: str, some: int) -> None:
        """Some files of a partition, as a plan of now would name them."""
        files = [one for one in self.bench.live() if one.file["partition"].get("part", part) == part]
        chosen = [one for place, one in enumerate(files) if some >> (place % 3) & 1]
        if not chosen:
            return
        self.runs += 1
        run = f"run{self.runs}"
        group = GroupFiles("g0", tuple(one.path for one in chosen), partition=chosen[0].partition)
        ready = self.bench.compactor.prepare(POINTER, self.bench.document["table-uuid"], [group], 1 << 29, run)
        assert list(ready.orders) == ["g0"]
        self.works.append(Work(run, ready))

    @precondition(lambda self: self.works)
    @rule(pick=st.integers(0, 100))
    def rewrite_group(self, pick: int) -> None:
        work = self.works[pick % len(self.works)]
        work.answers = work.answers or self.bench.rewrite(work.ready)

    @precondition(lambda self: any(work.answers for work in self.works))
    @rule(pick=st.integers(0, 100), again=st.booleans())
    def commit_group(self, pick: int, again: bool) -> None:
        """Some of them twice, as if the answer had been lost."""
        done = [work for work in self.works if work.answers]
        work = done[pick % len(done)]
        assert work.answers is not None
        landed = self.bench.commit(work.ready, work.answers, work.run)
        if landed.groups:
            self.landed += 1
            self.remember()
        live = {one.path for one in self.bench.live()}
        assert live.isdisjoint(landed.unused.uris)
        assert not landed.unused.named()
        if not again:
            self.works.remove(work)

    @invariant()
    def rows_are_the_models(self) -> None:
        assert sorted(self.read()) == sorted(self.rows)

    def read(self) -> list[Row]:
        return [row for one in self.bench.live() for _, row in self.left_of(one)]

    def left_of(self, one: LiveFile) -> list[tuple[int, Row]]:
        """The rows of a live file less the deletes that apply to it, by rules of this test's own."""
        rows = rows_of(one)
        gone = set()
        for delete in self.bench.live(DELETES):
            columns = pq.read_table(local_path(delete.path)).to_pydict()
            if delete.file["content"] == POSITION:
                hits = zip(columns["file_path"], columns["pos"], strict=True)
                gone |= {pos for path, pos in hits if path == one.path and one.sequence <= delete.sequence}
            elif one.sequence < delete.sequence and delete.file["partition"] == one.file["partition"]:
                gone |= {place for place, row in enumerate(rows) if row[0] in columns["id"]}
        return [(place, row) for place, row in enumerate(rows) if place not in gone]


def rows_of(one: LiveFile) -> list[Row]:
    found = pq.ParquetFile(local_path(one.path)).read().to_pydict()
    return list(zip(found["id"], found["part"], strict=True))


class Unpartitioned(Partitioned):
    """The same, where a delete by value is for every file."""

    partitioned = False


ANY_ORDER = settings(
    max_examples=5,
    stateful_step_count=25,
    deadline=None,
    phases=(Phase.generate,),
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=True,
)
TestPartitioned = Partitioned.TestCase
TestPartitioned.settings = ANY_ORDER
TestUnpartitioned = Unpartitioned.TestCase
TestUnpartitioned.settings = ANY_ORDER
