"""Tables that no catalog lists and whose drop is not believed, read where they were last seen.

Such a table may have taken in a file of any root since the last plan: what its newest metadata names is needed, wherever
it lies. The table itself is refused, so nothing of it is touched.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime

from lakewarden.model.doubt import ABSENT, Doubt
from lakewarden.model.errors import LakewardenError, Refusal
from lakewarden.model.format import Format
from lakewarden.model.known_table import KnownTable, Memory
from lakewarden.model.table import Pointer, TableState, catalog_of

THREADS = 16


def unlisted_tables(
    formats: Mapping[str, Format], memory: Memory, doubts: Iterable[Doubt], listed: Iterable[str], cutoff: datetime
) -> list[TableState]:
    """The absent tables among these doubts of which anything is left, each refused with its doubt."""
    names = frozenset(listed)
    rows = {row.key: row for row in memory.rows}
    absent = [(doubt, rows[doubt.key]) for doubt in doubts if doubt.code == ABSENT and doubt.key in rows]
    asked = [
        (doubt, row, formats[catalog]) for doubt, row in absent if (catalog := catalog_of(row.identifier)) in formats
    ]
    with ThreadPoolExecutor(THREADS) as pool:
        found = pool.map(lambda one: _table(one[0], one[1], one[2], names, cutoff), asked)
        return [state for state in found if state is not None]


def _table(
    doubt: Doubt, row: KnownTable, catalog: Format, listed: frozenset[str], cutoff: datetime
) -> TableState | None:
    """A table at the newest metadata of its own that can be found; None if there is none left."""
    # Where another table has its name by now, its uuid tells the two apart.
    name = f"{row.identifier}@{row.uuid}" if row.identifier in listed else row.identifier
    refusal = Refusal(doubt.code, f"{row.identifier} {doubt.why}; nothing of it is touched", doubt.hint)
    unknown = TableState(name, catalog.format, row.uuid, "", "", ()).refused(refusal)
    if not row.seen_location:
        # Nobody ever read what it needs: it may be anything, unless it never could be read.
        return unknown if row.uuid else None
    try:
        places = catalog.beside(row.seen_location)
    except LakewardenError:
        return unknown
    for state in _states(catalog, name, places, cutoff):
        if not state.is_visible:
            return unknown  # it may be the newest of this table
        if state.uuid == row.uuid:
            return state.refused(refusal)
    return None


def _states(catalog: Format, name: str, places: Iterable[str], cutoff: datetime) -> Iterator[TableState]:
    for place in places:
        yield catalog.load(Pointer(name, place), cutoff)
