"""What was about to be deleted, and what became of it: written before and after each batch, never changed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import Connection, func, insert, select

from lakewarden.ledger import chain
from lakewarden.ledger.actors import actor_of
from lakewarden.ledger.bulk import insert_rows
from lakewarden.ledger.chain import INTENT, OUTCOME, Entry, OutcomeRow
from lakewarden.ledger.connection import Connections
from lakewarden.ledger.runs import Run, run_of
from lakewarden.ledger.schema import journal, outcomes, runs
from lakewarden.ledger.verification import problems_of
from lakewarden.model.actor import Actor
from lakewarden.model.errors import NotFoundError, StateError
from lakewarden.model.plan import Tally
from lakewarden.model.ports import FileOutcome, JournalFile

OPEN = "open"
"""What `find` says of a file whose batch was begun and never closed: it may be gone, or not."""
MESSAGE_LENGTH = 1000


class OpenBatch(NamedTuple):
    """A batch whose deletion was announced and whose outcome is unknown."""

    batch_no: int
    files: tuple[JournalFile, ...]


class Deletion(NamedTuple):
    """One answer to "who deleted this file"."""

    run_id: str
    batch_no: int
    outcome: str
    at: datetime
    actor: Actor
    plan_id: str | None


class Journal:
    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    def intent(self, run_id: str, batch_no: int, files: Sequence[JournalFile]) -> None:
        """Announce a batch. When this returns, the announcement survives a crash; only then may anything be deleted.

        Raises NotFoundError for an unknown run, StateError for a finished one or a batch announced before.
        """
        if len({file.uri for file in files}) != len(files):
            raise ValueError(f"batch {batch_no} of run {run_id} names a file twice")
        content = chain.files_content(files)
        with self._connections.write() as connection:
            run = _locked_run(connection, run_id)
            if run.finished_at is not None:
                raise StateError(f"run {run_id} is finished ({run.status}); batch {batch_no} was not begun")
            if _entry(connection, run_id, batch_no, INTENT) is not None:
                raise StateError(f"batch {batch_no} of run {run_id} was begun before; it was not begun again")
            totals = Tally(len(files), sum(file.size for file in files))
            self._link(connection, run, INTENT, batch_no, totals, content, packed=chain.pack(content))

    def outcomes(self, run_id: str, batch_no: int, outcomes_: Sequence[FileOutcome]) -> None:
        """Close a batch: one outcome for each file announced, no more and no fewer, all or none of them.

        Raises ValueError when they do not match, StateError when the batch is not open.
        """
        with self._connections.write() as connection:
            run = _locked_run(connection, run_id)
            intent = _entry(connection, run_id, batch_no, INTENT)
            if intent is None or _entry(connection, run_id, batch_no, OUTCOME) is not None:
                raise StateError(f"batch {batch_no} of run {run_id} is not open; its outcome was not recorded")
            rows = _outcome_rows(chain.names_of(chain.unpack(intent.files)), outcomes_)
            columns = ("run_id", "batch_no", *OutcomeRow._fields)
            insert_rows(connection, outcomes, columns, [(run_id, batch_no, *row) for row in rows])
            totals = Tally(len(rows), sum(row.size for row in rows))
            self._link(connection, run, OUTCOME, batch_no, totals, chain.outcomes_content(rows))

    def open_batches(self, run_id: str) -> list[OpenBatch]:
        """The batches that were announced and never closed, in order."""
        query = _open_intents().where(journal.c.run_id == run_id).order_by(journal.c.seq)
        with self._connections.read() as connection:
            return [OpenBatch(row.batch_no, _files(row)) for row in connection.execute(query)]

    def next_batch(self, run_id: str) -> int:
        """The number of the batch to announce next, from 0."""
        with self._connections.read() as connection:
            last = connection.execute(select(func.max(journal.c.batch_no)).where(journal.c.run_id == run_id)).scalar()
        return 0 if last is None else int(last) + 1

    def done(self, run_id: str) -> dict[str, Tally]:
        """How many files, how many bytes, by outcome."""
        query = select(outcomes.c.outcome, func.count(), func.sum(outcomes.c.size))
        query = query.where(outcomes.c.run_id == run_id).group_by(outcomes.c.outcome).order_by(outcomes.c.outcome)
        with self._connections.read() as connection:
            return {name: Tally(int(count), int(size)) for name, count, size in connection.execute(query)}

    def head(self, run_id: str) -> str:
        """The hash of the last entry: what is kept elsewhere, so that a cut tail shows. Raises NotFoundError."""
        with self._connections.read() as connection:
            return _last(connection, _run(connection, run_id))[1]

    def verify(self, run_id: str) -> list[str]:
        """What is wrong with a run's journal: edited, missing or reordered rows. Empty when it is whole."""
        with self._connections.read() as connection:
            row = connection.execute(select(runs).where(runs.c.run_id == run_id)).first()
            if row is None:
                return [f"run {run_id} is not in the ledger"]
            return problems_of(connection, run_of(row))

    def find(self, uri: str) -> list[Deletion]:
        """Every time a file was in a batch, oldest first. Any spelling finds the canonical name, as plans list it."""
        wanted = chain.spellings(uri)
        closing = journal.alias()
        begun = (journal.c.run_id == outcomes.c.run_id) & (journal.c.batch_no == outcomes.c.batch_no)
        closed = (closing.c.run_id == outcomes.c.run_id) & (closing.c.batch_no == outcomes.c.batch_no)
        query = (
            select(outcomes.c.run_id, outcomes.c.batch_no, outcomes.c.position, outcomes.c.outcome)
            .add_columns(closing.c.at, journal.c.files, *_RUN)
            .join(journal, begun & (journal.c.kind == INTENT))
            .join(closing, closed & (closing.c.kind == OUTCOME))
            .join(runs, runs.c.run_id == outcomes.c.run_id)
            .where(outcomes.c.uri_hash.in_([chain.uri_hash(name) for name in wanted]))
        )
        unclosed = _open_intents().add_columns(*_RUN).join(runs, runs.c.run_id == journal.c.run_id)
        found: list[Deletion] = []
        with self._connections.read() as connection:
            for row in connection.execute(query):
                if _files(row)[row.position].uri in wanted:
                    found.append(_deletion(row, row.outcome))
            for row in connection.execute(unclosed):  # few: a crash leaves at most what was at work
                if any(file.uri in wanted for file in _files(row)):
                    found.append(_deletion(row, OPEN))
        return sorted(found, key=lambda deletion: (deletion.at, deletion.run_id, deletion.batch_no))

    def outcome_rows(self, run_id: str, outcome: str | None = None) -> Iterator[tuple[JournalFile, FileOutcome]]:
        """Every file of the run's closed batches with what became of it, batch by batch, in the order announced."""
        closed = select(journal.c.batch_no).where(journal.c.run_id == run_id, journal.c.kind == OUTCOME)
        with self._connections.read() as connection:
            batches = list(connection.execute(closed.order_by(journal.c.batch_no)).scalars())
        for batch_no in batches:
            mine = (outcomes.c.run_id == run_id) & (outcomes.c.batch_no == batch_no)
            query = select(outcomes).where(mine).order_by(outcomes.c.position)
            if outcome is not None:
                query = query.where(outcomes.c.outcome == outcome)
            with self._connections.read() as connection:
                rows = connection.execute(query).all()
                intent = _entry(connection, run_id, batch_no, INTENT) if rows else None
            files = _files(intent) if intent is not None else ()
            for row in rows:
                file = files[row.position]
                yield file, FileOutcome(file.uri, row.outcome, row.code, row.message)

    def _link(
        self,
        connection: Connection,
        run: Run,
        kind: str,
        batch_no: int,
        totals: Tally,
        content: bytes,
        packed: bytes | None = None,
    ) -> None:
        seq, prev_hash = _last(connection, run)
        at = self._connections.clock.now()
        entry = Entry(run.run_id, seq + 1, kind, batch_no, at, totals.files, totals.bytes, prev_hash)
        columns = asdict(entry)
        connection.execute(insert(journal), columns | {"files": packed, "hash": entry.hash(content)})


_RUN = [runs.c.plan_id, runs.c.operator, runs.c.worker, runs.c.trigger, runs.c.ticket]


def _run(connection: Connection, run_id: str) -> Run:
    row = connection.execute(select(runs).where(runs.c.run_id == run_id)).first()
    if row is None:
        raise NotFoundError(f"there is no run {run_id}; nothing was recorded")
    return run_of(row)


def _locked_run(connection: Connection, run_id: str) -> Run:
    """The run, held until the transaction ends: two entries at once would fork its chain."""
    connection.execute(select(runs.c.run_id).where(runs.c.run_id == run_id).with_for_update())
    return _run(connection, run_id)


def _last(connection: Connection, run: Run) -> tuple[int, str]:
    query = select(journal.c.seq, journal.c.hash).where(journal.c.run_id == run.run_id)
    row = connection.execute(query.order_by(journal.c.seq.desc()).limit(1)).first()
    return (row.seq, row.hash) if row else (-1, chain.first_hash(run))


def _entry(connection: Connection, run_id: str, batch_no: int, kind: str) -> Any | None:
    where = (journal.c.run_id == run_id) & (journal.c.batch_no == batch_no) & (journal.c.kind == kind)
    return connection.execute(select(journal).where(where)).first()


def _open_intents() -> Any:
    closing = journal.alias()
    same = (closing.c.run_id == journal.c.run_id) & (closing.c.batch_no == journal.c.batch_no)
    closed = select(closing.c.seq).where(same, closing.c.kind == OUTCOME).exists()
    return select(journal).where(journal.c.kind == INTENT, ~closed)


def _files(row: Any) -> tuple[JournalFile, ...]:
    return chain.files_of(chain.unpack(row.files))


def _deletion(row: Any, outcome: str) -> Deletion:
    return Deletion(row.run_id, row.batch_no, outcome, row.at, actor_of(row), row.plan_id)


def _outcome_rows(files: Sequence[tuple[str, int]], found: Sequence[FileOutcome]) -> list[OutcomeRow]:
    by_uri = {outcome.uri: outcome for outcome in found}
    if len(by_uri) != len(found) or len(found) != len(files) or any(uri not in by_uri for uri, _ in files):
        raise ValueError(f"{len(found)} outcomes do not match the {len(files)} files that were announced")
    rows = []
    for position, (uri, size) in enumerate(files):
        became = by_uri[uri]
        message = _storable(became.message)
        rows.append(OutcomeRow(position, chain.uri_hash(uri), size, str(became.outcome), became.code, message))
    return rows


def _storable(message: str | None) -> str | None:
    """A store's error text, cut, and without what PostgreSQL refuses: it must not cost a batch its outcomes."""
    if message is None:
        return None
    return message[:MESSAGE_LENGTH].replace("\x00", "\\0").encode("utf-8", "replace").decode()
