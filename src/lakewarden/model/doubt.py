"""When a table is in doubt: it was seen before, and what can be seen of it now is less than it was.

A table that cannot be seen needs everything that it ever touched. So a doubt names places, not files, and whatever removes
or releases leaves those places alone. An example: two tables share `data/`, and one of them is missing from its catalog.
Its files look like orphans of the other, and stay until the drop is believed.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from lakewarden.model.errors import Refusal
from lakewarden.model.known_table import KnownTable, Memory
from lakewarden.model.margins import MARGINS
from lakewarden.model.prefixes import Prefixes
from lakewarden.model.table import TableState, catalog_of
from lakewarden.model.uri import FileUri

UNREAD, ABSENT, LESS = "LW-ROOT-001", "LW-DOUBT-001", "LW-DOUBT-002"


@dataclass(frozen=True, slots=True)
class Doubt:
    """One table in doubt, every place that it ever touched, and what to say of each.

    `uuid` tells it apart from another table that has its name by now.
    """

    table: str
    places: tuple[str, ...]
    code: str
    why: str
    hint: str
    uuid: str = ""

    @property
    def key(self) -> tuple[str, str]:
        return self.table, self.uuid

    def refusal(self, place: str) -> Refusal:
        message = f"{self.table} had files under {place} and {self.why}; nothing under it is touched"
        return Refusal(self.code, message, self.hint)


@dataclass(frozen=True, slots=True)
class Look:
    """One look at all catalogs: the tables they list, each with its metadata, and those of them that were read.

    A table that was not read is at the metadata at which it was read before. `abandoned`: what operators gave up, and when.
    """

    listed: Mapping[str, str]
    states: Mapping[str, TableState]
    at: datetime
    abandoned: Mapping[str, datetime] = field(default_factory=dict)

    @property
    def elsewhere(self) -> dict[str, TableState]:
        """Under which a table may be found that has another name now: its uuid, or its metadata if it cannot be read."""
        return {
            (state.uuid if state.uuid and state.is_visible else state.metadata_location): state
            for state in self.states.values()
        }

    def healthy(self, memory: Memory) -> dict[str, datetime]:
        """The catalogs that still list a table which they listed before, each with when the oldest such table was first
        seen: that very table, not another of its name.

        An empty catalog may have lost everything, and so may one in which a few tables were made again: only a table from
        before the loss speaks for it.
        """
        found: dict[str, datetime] = {}
        for row in memory.rows:
            if self._is_listed(row) and row.first_seen is not None:
                catalog = catalog_of(row.identifier)
                found[catalog] = min(row.first_seen, found.get(catalog, row.first_seen))
        return found

    def gave_up(self, row: KnownTable) -> bool:
        """Whether an operator gave this table up, and it was not seen again since."""
        return row.uuid in self.abandoned and row.at <= self.abandoned[row.uuid]

    def _is_listed(self, row: KnownTable) -> bool:
        state = self.states.get(row.identifier)
        return row.identifier in self.listed and (state is None or state.uuid == row.uuid)


def doubts_of(memory: Memory, look: Look) -> list[Doubt]:
    """Every table that was seen before and is in doubt now."""
    elsewhere, healthy = look.elsewhere, look.healthy(memory)
    found: list[Doubt] = []
    for row in memory.rows:
        state, is_there = now_of(row, look, elsewhere, memory)
        if not is_there:
            if not look.gave_up(row) and not is_believed_dropped(row, healthy, look.at):
                found.append(_absent(row, renewed=row.identifier in look.listed))
        elif state is not None:
            found += _less(row, state)
    return found


def now_of(
    row: KnownTable, look: Look, elsewhere: Mapping[str, TableState], memory: Memory
) -> tuple[TableState | None, bool]:
    """What a known table is now, under whatever name, if it was read; and whether any catalog lists it.

    A table that was known under two names at once (a copy with the same uuid) is two: neither is the other renamed.
    """
    state = look.states.get(row.identifier)
    if row.identifier in look.listed and (state is None or not (row.uuid and state.uuid) or state.uuid == row.uuid):
        return state, True
    renamed = elsewhere.get(row.uuid) if row.uuid else None
    if renamed is not None and memory.has(renamed.identifier, row.uuid):
        renamed = None
    if renamed is None and row.seen_location:
        at = elsewhere.get(row.seen_location)
        renamed = at if at is not None and not at.is_visible else None
    return renamed, renamed is not None


def doubted_roots(doubts: Iterable[Doubt], prefixes: Collection[str]) -> dict[str, Refusal]:
    """Those of these disjoint directories that a table in doubt ever touched, each with the reason."""
    roots = Prefixes(prefixes)
    by_place: dict[str, Doubt] = {}
    for doubt in doubts:
        for place in doubt.places:
            by_place.setdefault(FileUri.parse(place).as_prefix(), doubt)
    found: dict[str, Refusal] = {}
    for place, doubt in by_place.items():
        if (root := roots.of(place)) is not None:
            found.setdefault(root, doubt.refusal(place))
    around = Prefixes(by_place)
    for prefix in prefixes:
        if prefix not in found and (above := around.of(prefix)) is not None:
            found[prefix] = by_place[above].refusal(above)
    return found


def is_believed_dropped(row: KnownTable, healthy: Mapping[str, datetime], now: datetime) -> bool:
    """Whether a table that no catalog lists may be taken for dropped.

    Its catalog has to be healthy, and the table missing for the whole grace: a catalog that was restored, restarted or
    asked too early leaves tables out for a while.
    """
    since = healthy.get(catalog_of(row.identifier))
    if row.absent_since is None or since is None or since >= row.absent_since:
        return False
    return now - row.absent_since >= MARGINS.drop_grace


def _less(row: KnownTable, state: TableState) -> Iterator[Doubt]:
    """Why a table that is there is in doubt, if it is."""
    if not state.is_visible:
        refusal = state.refusal or Refusal(UNREAD, "its metadata is not known", "")
        why = f"cannot be read now ({refusal.message})"
        yield Doubt(row.identifier, row.places, UNREAD, why, refusal.hint, row.uuid)
    elif row.live_files > len(state.files) and not state.manifest_lists and not state.manifests:
        # A table that was never written needs its metadata, and nothing more.
        why = f"is empty now, where it needed {row.live_files} files before"
        yield Doubt(row.identifier, row.places, LESS, why, _hint(row, "If it was emptied on purpose"), row.uuid)
    elif is_older(row, state):
        why = f"is at {state.metadata_location} now, which is older than {row.seen_location}, seen before"
        yield Doubt(row.identifier, row.places, LESS, why, _hint(row, "If it was set back on purpose"), row.uuid)


def is_older(row: KnownTable, state: TableState) -> bool:
    """Whether a table's metadata was written before the one that was seen last, and does not continue it."""
    if not row.seen_ms or row.seen_location == state.metadata_location or state.updated_ms >= row.seen_ms:
        return False
    return row.seen_location not in {logged.uri for logged in state.history}


def _absent(row: KnownTable, renewed: bool) -> Doubt:
    since = f" (first missed {row.absent_since:%Y-%m-%d %H:%M} UTC)" if row.absent_since else ""
    lost = "has lost its name to another table" if renewed else "is not listed by its catalog any more"
    hint = (
        f"A drop is believed {MARGINS.drop_grace.total_seconds() / 3600:.0f} hours after it was first noticed, while the "
        f"catalog lists other tables that it listed before. {_hint(row, 'If it is gone for good')}"
    )
    return Doubt(row.identifier, row.places, ABSENT, lost + since, hint, row.uuid)


def _hint(row: KnownTable, when: str) -> str:
    return f"{when}: lakewarden forget {shlex.quote(row.identifier)}"
