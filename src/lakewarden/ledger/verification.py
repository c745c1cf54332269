"""Whether a run's journal is still what was written: every hash computed again from the rows."""

from __future__ import annotations

import zlib
from typing import Any

from sqlalchemy import Connection, select

from lakewarden.ledger import chain
from lakewarden.ledger.chain import INTENT, OUTCOME, Entry, OutcomeRow
from lakewarden.ledger.runs import Run
from lakewarden.ledger.schema import journal, outcomes

_ENTRY = [journal.c[name] for name in Entry.__dataclass_fields__]


def problems_of(connection: Connection, run: Run) -> list[str]:
    """Each deviation, in words. A cut tail leaves a whole, shorter chain: comparing heads shows that one."""
    problems: list[str] = []
    expected = chain.first_hash(run)
    closed: set[int] = set()
    # Headers first, contents one at a time: a run's files need not fit in memory.
    links = select(*_ENTRY, journal.c.hash).where(journal.c.run_id == run.run_id).order_by(journal.c.seq)
    headers = connection.execute(links).all()
    for seq, row in enumerate(headers):
        name = f"entry {row.seq} ({row.kind} of batch {row.batch_no})"
        entry = Entry(*row[:-1])
        if row.seq != seq and (seq == 0 or headers[seq - 1].seq != row.seq - 1):
            problems.append(f"before {name}: an entry is missing")
        if entry.prev_hash != expected:
            before = "the entry before it is missing or changed" if seq else "who ran it, or by which plan, was changed"
            problems.append(f"{name} does not follow: {before}")
        content = _content(connection, entry)
        if content is None:
            problems.append(f"{name}: its files cannot be read")
        elif entry.hash(content) != row.hash:
            problems.append(f"{name}: its content is not what was written")
        if entry.kind == OUTCOME:
            closed.add(entry.batch_no)
        expected = row.hash
    query = select(outcomes.c.batch_no).where(outcomes.c.run_id == run.run_id).distinct().order_by(outcomes.c.batch_no)
    stray = [batch_no for batch_no in connection.execute(query).scalars() if batch_no not in closed]
    problems += [f"batch {batch_no} has outcomes, but the entry that closed it is missing" for batch_no in stray]
    return problems


def _content(connection: Connection, entry: Entry) -> bytes | None:
    if entry.kind == INTENT:
        where = (journal.c.run_id == entry.run_id) & (journal.c.seq == entry.seq)
        packed: Any = connection.execute(select(journal.c.files).where(where)).scalar()
        try:
            return chain.unpack(packed)
        except (zlib.error, TypeError):
            return None
    columns = [outcomes.c[name] for name in OutcomeRow._fields]
    where = (outcomes.c.run_id == entry.run_id) & (outcomes.c.batch_no == entry.batch_no)
    rows = connection.execute(select(*columns).where(where).order_by(outcomes.c.position))
    return chain.outcomes_content(OutcomeRow(*row) for row in rows)
