"""The rows of a plan that change something, in their order, however many they are.

Ten million rows do not fit beside everything else, and their order must be the same each time: a run that goes on finds
the same files under the same numbers. So rows are sorted in runs, the runs wait in a temporary file, and are merged when
they are read. A plan of few rows stays in memory.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from tempfile import TemporaryFile
from typing import IO

import pyarrow as pa
import pyarrow.compute as pc

from lakewarden.model.errors import StateUnwritableError
from lakewarden.model.run import PlanResult
from lakewarden.pipeline import columns as c
from lakewarden.steps.plan.rows import of_tables, rows_of
from lakewarden.storage.stores import Stores

# As many as two files of a plan hold: some 100 MB while they are sorted.
ROWS_A_RUN = 500_000
# Of each run so many are in memory while the runs are merged.
ROWS_A_CHUNK = 8_192
ORDER = [(c.ROOT, "ascending"), ("uri", "ascending")]


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of a sorted run in the temporary file, with the digest by which it is known again."""

    start: int
    length: int
    sha256: bytes


@dataclass
class OrderedRows:
    """PLAN_ROWS by root and name; of each root the directories last, inner ones first. `counts` are rows by root.

    Directories are kept in memory: only local disks have them, and they were found by one process.
    """

    counts: Counter[int] = field(default_factory=Counter)
    least: dict[int, str] = field(default_factory=dict)
    _files: pa.Table = field(default_factory=c.PLAN_ROWS.empty_table)
    _directories: pa.Table = field(default_factory=c.PLAN_ROWS.empty_table)
    _runs: list[list[Chunk]] = field(default_factory=list)
    _spilled: IO[bytes] | None = None

    @property
    def num_rows(self) -> int:
        return self.counts.total()

    def __iter__(self) -> Iterator[pa.Table]:
        """The rows, table by table."""
        told: set[int] = set()
        for rows in self._merged() if self._runs else (self._files,):
            yield from self._with_directories(rows, told)
        # Roots without any file, and those that ended with the last one.
        for root in sorted(set(self._directories[c.ROOT].to_pylist()) - told):
            yield self._of_root(root)

    def _with_directories(self, files: pa.Table, told: set[int]) -> Iterator[pa.Table]:
        """Files in their order, each root's directories put in where the root ends."""
        if not self._directories.num_rows:
            yield files
            return
        waiting = set(self._directories[c.ROOT].to_pylist())
        for root in sorted({*files[c.ROOT].to_pylist(), *waiting} - told):
            mine = files.filter(pc.equal(files[c.ROOT], root))
            if mine.num_rows:
                yield mine
            # More files of the last root may follow in the next table.
            if files.num_rows and root < files[c.ROOT][-1].as_py() and root in waiting:
                told.add(root)
                yield self._of_root(root)

    def _of_root(self, root: int) -> pa.Table:
        return self._directories.filter(pc.equal(self._directories[c.ROOT], root))

    def _merged(self) -> Iterator[pa.Table]:
        """The runs as one: whatever is not beyond the end of any run's piece in memory comes next."""
        pieces = [_Pieces(self._chunks(run)) for run in self._runs]
        while pieces := [one for one in pieces if one.rows.num_rows]:
            bound = min(one.last for one in pieces)
            yield pa.concat_tables([one.take_until(bound) for one in pieces]).sort_by(ORDER).combine_chunks()

    def _chunks(self, run: Iterable[Chunk]) -> Iterator[pa.Table]:
        for chunk in run:
            assert self._spilled is not None
            self._spilled.seek(chunk.start)
            data = self._spilled.read(chunk.length)
            if hashlib.sha256(data).digest() != chunk.sha256:
                raise StateUnwritableError(
                    f"the temporary file in {tempfile.gettempdir()} does not hold what was written to it; "
                    "no further batch was started",
                    hint="Look after that disk, or name another directory with TMPDIR; then run apply again.",
                )
            yield pa.ipc.open_stream(data).read_all()

    def add(self, rows: pa.Table) -> None:
        """Count these rows, and keep them until `settle`."""
        found = rows.select([c.ROOT, "uri"]).group_by([c.ROOT]).aggregate([("uri", "count"), ("uri", "min")])
        for root, count, least in zip(
            *(found[name].to_pylist() for name in (c.ROOT, "uri_count", "uri_min")), strict=True
        ):
            self.counts[root] += count
            self.least[root] = min(least, self.least.get(root, least))
        directory = pc.ends_with(rows["uri"], "/")
        self._directories = pa.concat_tables([self._directories, rows.filter(directory)])
        self._files = pa.concat_tables([self._files, rows.filter(pc.invert(directory))])
        if self._files.num_rows >= ROWS_A_RUN:
            self._spill()

    def settle(self) -> None:
        """All rows are here."""
        self._directories = self._directories.sort_by([(c.ROOT, "ascending"), ("uri", "descending")]).combine_chunks()
        if self._runs and self._files.num_rows:
            self._spill()
        self._files = self._files.sort_by(ORDER).combine_chunks()

    def _spill(self) -> None:
        """Write the files that are in memory to the temporary file, as one more run. It goes with this process."""
        run = []
        try:
            if self._spilled is None:
                self._spilled = TemporaryFile(prefix="lakewarden-apply-")  # noqa: SIM115  (open as long as the rows are)
            for rows in self._files.sort_by(ORDER).to_batches(max_chunksize=ROWS_A_CHUNK):
                sink = pa.BufferOutputStream()
                with pa.ipc.new_stream(sink, rows.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
                    writer.write_batch(rows)
                data = sink.getvalue().to_pybytes()
                run.append(Chunk(self._spilled.seek(0, 2), len(data), hashlib.sha256(data).digest()))
                self._spilled.write(data)
            self._spilled.flush()
        except OSError as error:
            raise StateUnwritableError(
                f"the rows of the plan could not be put in order in {tempfile.gettempdir()}: {error}; nothing was done",
                hint="Make room there, or name another directory with TMPDIR; then run apply again.",
            ) from error
        self._runs.append(run)
        self._files = c.PLAN_ROWS.empty_table()


class _Pieces:
    """One sorted run, of which one piece at a time is in memory."""

    def __init__(self, chunks: Iterator[pa.Table]) -> None:
        self._chunks = chunks
        self.rows = next(chunks, c.PLAN_ROWS.empty_table())

    @property
    def last(self) -> tuple[int, str]:
        return self.rows[c.ROOT][-1].as_py(), self.rows["uri"][-1].as_py()

    def take_until(self, bound: tuple[int, str]) -> pa.Table:
        """The rows up to and with this one, which is not beyond the piece of at least one run."""
        root, uri = bound
        before = pc.less(self.rows[c.ROOT], root)
        here = pc.and_(pc.equal(self.rows[c.ROOT], root), pc.less_equal(self.rows["uri"], uri))
        count = pc.sum(pc.or_(before, here)).as_py()
        taken, self.rows = self.rows.slice(0, count), self.rows.slice(count)
        if not self.rows.num_rows:
            self.rows = next(self._chunks, self.rows)
        return taken


def orphans_in_order(stores: Stores, result: PlanResult, tables: Collection[str]) -> OrderedRows:
    """PLAN_ROWS to delete of these tables. Every file of the plan is compared with its digest before the first is used."""
    found = OrderedRows()
    for rows in rows_of(stores, result):
        found.add(of_tables(rows.filter(pc.equal(rows["verdict"], str(result.plan.changing))), tables))
    found.settle()
    return found
