"""Whether a run's journal is still what was written: every hash computed again from the rows."""

from __future__ import annotations

from sqlalchemy import Connection, select

from lakewarden.ledger import chain
from lakewarden.ledger.chain import Entry
from lakewarden.ledger.runs import Run
from lakewarden.ledger.schema import journal

_ENTRY = [journal.c[name] for name in Entry.__dataclass_fields__]


def problems_of(connection: Connection, run: Run) -> list[str]:
    """Each deviation, in words. A cut tail leaves a whole, shorter chain: comparing heads shows that one."""
    problems: list[str] = []
    expected = chain.first_hash(run)
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
        where = (journal.c.run_id == entry.run_id) & (journal.c.seq == entry.seq)
        content = connection.execute(select(journal.c.content).where(where)).scalar_one()
        if entry.hash(content) != row.hash:
            problems.append(f"{name}: its content is not what was written")
        expected = row.hash
    return problems
