"""What was about to be deleted, and what became of it: written before and after each batch, never changed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import Connection, bindparam, func, insert, select
from sqlalchemy.exc import IntegrityError

from lakewarden.ledger import chain
from lakewarden.ledger.actors import actor_of
from lakewarden.ledger.batch_outcomes import Settled, outcome_at, rows_of, settle, stretches_of
from lakewarden.ledger.chain import Entry
from lakewarden.ledger.connection import Connections, put
from lakewarden.ledger.progress import CleanupProgress
from lakewarden.ledger.runs import Run, run_of
from lakewarden.ledger.schema import journal, progress, runs
from lakewarden.ledger.statuses import INTENT, OUTCOME
from lakewarden.ledger.verification import problems_of
from lakewarden.model.actor import Actor
from lakewarden.model.errors import NotFoundError, StateError
from lakewarden.model.files import BatchFiles
from lakewarden.model.plan import Tallies, Tally, add_tallies
from lakewarden.model.ports import FileOutcome, JournalFile

OPEN = "open"
"""What `find` says of a file whose batch was begun and never closed: it may be gone, or not."""
BOUND_LENGTH = 256
AFTER_ALL = b"\xff"  # no address holds this byte, so with it a bound that was cut still comes after
Ends = tuple[bytes | None, bytes | None]


class OpenBatch(NamedTuple):
    """A batch whose deletion was announced and whose outcome is unknown."""

    batch_no: int
    files: BatchFiles


class Deletion(NamedTuple):
    """One answer to "who deleted this file"."""

    run_id: str
    batch_no: int
    outcome: str
    at: datetime
    actor: Actor
    plan_id: str | None
    file: JournalFile


class Journal:
    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    def intent(self, run_id: str, batch_no: int, files: Sequence[JournalFile]) -> None:
        """Announce a batch. When this returns, the announcement survives a crash; only then may anything be deleted.

        Raises NotFoundError for an unknown run, StateError for a finished one or a batch announced before.
        """
        announced = BatchFiles.of(files)
        uris = announced.uris
        if len(set(uris)) != len(uris):
            raise ValueError(f"batch {batch_no} of run {run_id} names a file twice")
        content = chain.files_content(announced)
        with self._connections.write() as connection:
            run = _locked_run(connection, run_id)
            if run.finished_at is not None:
                raise StateError(f"run {run_id} is finished ({run.status}); batch {batch_no} was not begun")
            totals = Tally(len(uris), sum(announced.sizes))
            ends = _ends(announced)
            if not self._link(connection, run, INTENT, batch_no, totals, content, ends=ends):
                raise StateError(f"batch {batch_no} of run {run_id} was begun before; it was not begun again")

    def outcomes(
        self,
        run_id: str,
        batch_no: int,
        found: Sequence[FileOutcome] | Settled,
        reached: CleanupProgress | None = None,
    ) -> None:
        """Close a batch: one outcome for each file announced, no more and no fewer; and note how far the run is.

        Raises ValueError when they do not match, StateError when the batch is not open.
        """
        with self._connections.write() as connection:
            run = _locked_run(connection, run_id)
            intent = connection.execute(_HEADER, {"run": run_id, "batch": batch_no}).first()
            if intent is None:
                raise StateError(f"batch {batch_no} of run {run_id} is not open; its outcome was not recorded")
            settled = found if isinstance(found, Settled) else settle(_files(connection, run_id, batch_no), found)
            totals = sum(settled.tallies.values(), Tally())
            if (*_ends(settled.files), totals.files, totals.bytes) != tuple(intent):
                raise ValueError(f"the outcomes of batch {batch_no} do not match the files that were announced")
            content = chain.pack(settled.stretches)
            if not self._link(connection, run, OUTCOME, batch_no, totals, content, tallies=settled.tallies):
                raise StateError(f"batch {batch_no} of run {run_id} is not open; its outcome was not recorded")
            if reached is not None:
                put(connection, progress, [asdict(reached)])

    def open_batches(self, run_id: str) -> list[OpenBatch]:
        """The batches that were announced and never closed, in order."""
        query = _open_intents().where(journal.c.run_id == run_id).order_by(journal.c.seq)
        with self._connections.read() as connection:
            return [OpenBatch(row.batch_no, chain.files_of(row.content)) for row in connection.execute(query)]

    def next_batch(self, run_id: str) -> int:
        """The number of the batch to announce next, from 0."""
        with self._connections.read() as connection:
            last = connection.execute(select(func.max(journal.c.batch_no)).where(journal.c.run_id == run_id)).scalar()
        return 0 if last is None else int(last) + 1

    def done(self, run_id: str) -> dict[str, Tally]:
        """How many files, how many bytes, by outcome."""
        with self._connections.read() as connection:
            found = add_tallies(*(_tallies(row) for row in connection.execute(_CLOSED, {"run": run_id})))
        return dict(sorted(found.items()))

    def head(self, run_id: str) -> str:
        """The hash of the last entry: what is kept elsewhere, so that a cut tail shows. Raises NotFoundError."""
        with self._connections.read() as connection:
            return _last(connection, _run(connection, run_id))[1]

    def links(self, run_id: str) -> set[str]:
        """The hashes of all entries, and the one with which the chain begins. Raises NotFoundError."""
        with self._connections.read() as connection:
            run = _run(connection, run_id)
            found = connection.execute(select(journal.c.hash).where(journal.c.run_id == run_id)).scalars()
            return {chain.first_hash(run), *found}

    def verify(self, run_id: str) -> list[str]:
        """What is wrong with a run's journal: edited, missing or reordered rows. Empty when it is whole."""
        with self._connections.read() as connection:
            row = connection.execute(select(runs).where(runs.c.run_id == run_id)).first()
            if row is None:
                return [f"run {run_id} is not in the ledger"]
            return problems_of(connection, run_of(row))

    def find(self, uri: str) -> list[Deletion]:
        """Every time a file was in a batch, oldest first. Any spelling finds the canonical name, as plans list it."""
        found: list[Deletion] = []
        with self._connections.read() as connection:
            for name in chain.spellings(uri):
                for row in connection.execute(_AROUND, {"uri": chain.sortable(name)}):
                    files = chain.files_of(row.content)
                    if name in files.uris:
                        found.append(_deletion(row, files, files.uris.index(name)))
        return sorted(found, key=lambda deletion: (deletion.at, deletion.run_id, deletion.batch_no))

    def outcome_rows(self, run_id: str, outcome: str | None = None) -> Iterator[tuple[JournalFile, FileOutcome]]:
        """Every file of the run's closed batches with what became of it, batch by batch, in the order announced."""
        with self._connections.read() as connection:
            closed = [row for row in connection.execute(_CLOSED, {"run": run_id}) if outcome in (None, *row.tallies)]
        for batch in closed:
            with self._connections.read() as connection:
                files = _files(connection, run_id, batch.batch_no)
                content = _content(connection, run_id, batch.batch_no, OUTCOME)
            for file, became in rows_of(files, stretches_of(content)):
                if outcome in (None, became.outcome):
                    yield file, became

    def _link(
        self,
        connection: Connection,
        run: Run,
        kind: str,
        batch_no: int,
        totals: Tally,
        content: bytes,
        *,
        ends: Ends = (None, None),
        tallies: Tallies | None = None,
    ) -> bool:
        """Append one entry to the run's chain; False if the batch has one of that kind."""
        seq, prev_hash = _last(connection, run)
        at = self._connections.clock.now()
        sums = {name: [tally.files, tally.bytes] for name, tally in tallies.items()} if tallies else None
        entry = Entry(run.run_id, seq + 1, kind, batch_no, at, totals.files, totals.bytes, *ends, sums, prev_hash)
        try:
            connection.execute(insert(journal), asdict(entry) | {"content": content, "hash": entry.hash(content)})
        except IntegrityError:
            return False
        return True


_OF_BATCH = (journal.c.run_id == bindparam("run")) & (journal.c.batch_no == bindparam("batch"))
_HEADER = select(journal.c.first_uri, journal.c.last_uri, journal.c.count, journal.c.total_bytes).where(
    _OF_BATCH, journal.c.kind == INTENT
)
_CONTENT = select(journal.c.content).where(_OF_BATCH, journal.c.kind == bindparam("kind"))
_CLOSED = (
    select(journal.c.batch_no, journal.c.tallies)
    .where(journal.c.run_id == bindparam("run"), journal.c.kind == OUTCOME)
    .order_by(journal.c.batch_no)
)
_LAST = (
    select(journal.c.seq, journal.c.hash)
    .where(journal.c.run_id == bindparam("run"))
    .order_by(journal.c.seq.desc())
    .limit(1)
)
_closing = journal.alias()
_closed = (_closing.c.run_id == journal.c.run_id) & (_closing.c.batch_no == journal.c.batch_no)
# Batches whose range of addresses holds one: a few, because batches are sorted by address.
_AROUND = (
    select(journal.c.run_id, journal.c.batch_no, journal.c.at, journal.c.content)
    .add_columns(_closing.c.content.label("became"), _closing.c.at.label("closed_at"))
    .add_columns(runs.c.plan_id, runs.c.operator, runs.c.worker, runs.c.trigger, runs.c.ticket)
    .join(runs, runs.c.run_id == journal.c.run_id)
    .outerjoin(_closing, _closed & (_closing.c.kind == OUTCOME))
    .where(journal.c.first_uri <= bindparam("uri"), journal.c.last_uri >= bindparam("uri"))
)


def _run(connection: Connection, run_id: str, *, lock: bool = False) -> Run:
    query = select(runs).where(runs.c.run_id == run_id)
    row = connection.execute(query.with_for_update() if lock else query).first()
    if row is None:
        raise NotFoundError(f"there is no run {run_id}; nothing was recorded")
    return run_of(row)


def _locked_run(connection: Connection, run_id: str) -> Run:
    """The run, held until the transaction ends: two entries at once would fork its chain."""
    return _run(connection, run_id, lock=True)


def _last(connection: Connection, run: Run) -> tuple[int, str]:
    row = connection.execute(_LAST, {"run": run.run_id}).first()
    return (row.seq, row.hash) if row else (-1, chain.first_hash(run))


def _content(connection: Connection, run_id: str, batch_no: int, kind: str) -> bytes:
    return bytes(connection.execute(_CONTENT, {"run": run_id, "batch": batch_no, "kind": kind}).scalar_one())


def _files(connection: Connection, run_id: str, batch_no: int) -> BatchFiles:
    return chain.files_of(_content(connection, run_id, batch_no, INTENT))


def _open_intents() -> Any:
    closed = select(_closing.c.seq).where(_closed, _closing.c.kind == OUTCOME).exists()
    return select(journal).where(journal.c.kind == INTENT, ~closed)


def _ends(files: BatchFiles) -> Ends:
    """Bounds of the addresses of a batch, short enough for any database's index."""
    if not files.uris:
        return None, None
    first, last = chain.sortable(min(files.uris)), chain.sortable(max(files.uris))
    return first[:BOUND_LENGTH], last[:BOUND_LENGTH] + AFTER_ALL


def _tallies(row: Any) -> dict[str, Tally]:
    return {name: Tally(*counts) for name, counts in row.tallies.items()}


def _deletion(row: Any, files: BatchFiles, place: int) -> Deletion:
    outcome = OPEN if row.became is None else outcome_at(stretches_of(row.became), place)
    at = row.closed_at or row.at
    return Deletion(row.run_id, row.batch_no, outcome, at, actor_of(row), row.plan_id, files[place])
