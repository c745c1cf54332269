"""What a plan leaves behind for the next: every table as it was seen, where it had files, and who is missing."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import islice

from lakewarden.model.doubt import LESS, Look, is_believed_dropped, now_of
from lakewarden.model.errors import NessieServedError
from lakewarden.model.known_table import KnownTable, Memory
from lakewarden.model.plan import Tally
from lakewarden.model.roots import named_outside
from lakewarden.model.table import TableState, catalog_of
from lakewarden.model.uri import FileUri
from lakewarden.steps.deployment import Deployment
from lakewarden.steps.observe.fleet import Fleet, look_of

MOST_DOUBTS = 100
NESSIE = NessieServedError.code


@dataclass(frozen=True, slots=True)
class Reached:
    """What a comparison found of one table: roots of others in which it has files, and how many files it needs.

    `whole`: the metadata at which these roots were all there are. `live` and `whole` are None where it did not tell.
    `damaged`: its manifests could not be read, so it does not count as seen at the metadata that it has now.
    """

    outside: tuple[str, ...] = ()
    live: Tally | None = None
    whole: str | None = None
    damaged: bool = False


def remember(deployment: Deployment, fleet: Fleet, reached: Mapping[str, Reached]) -> None:
    """Enter every table that can be seen, note since when others are missing, and forget those that were dropped."""
    look = look_of(deployment, fleet)
    outside = _outside_of(fleet)
    # Of a table that is less than it was, what was known before stays: else the doubt would last for one plan only.
    doubted = {doubt.table for doubt in fleet.doubts if doubt.code == LESS}
    seen: list[KnownTable] = []
    for state in fleet.states:
        before = fleet.memory.of(state)
        if state.identifier in fleet.unlisted:
            continue
        if before is not None and before.identifier in doubted:
            if before.absent_since is not None:
                seen.append(before._replace(absent_since=None))
            continue
        found = reached.get(state.identifier)
        ages = not deployment.readers[state.format].by_name
        row = _row(state, before, found, outside(state), look.at, ages=ages)
        accepted = not fleet.memory.rows or state.identifier in fleet.forgotten
        unread = not state.is_visible or (found is not None and found.damaged)
        if row is not None and before is None and accepted and unread:
            # It cannot be read, and that is nothing new: only when its metadata changes does it say more.
            row = row._replace(metadata_location=state.metadata_location)
        # A table that was given up and is seen again counts as any other from now on.
        if row is not None and (row != before or (state.is_visible and look.gave_up(row))):
            seen.append(row._replace(at=look.at))
    missing, gone = _missing_and_gone(fleet.memory, look)
    deployment.ledger.known_tables.record([*seen, *missing], gone)


def unknowns(fleet: Fleet) -> Iterator[str]:
    """What a plan does not know, for the person who reads it: tables in doubt, and what nobody has seen before."""
    for doubt in islice(fleet.doubts, MOST_DOUBTS):
        yield f"{doubt.table} is in doubt: it {doubt.why}. Next: {doubt.hint}"
    if len(fleet.doubts) > MOST_DOUBTS:
        yield f"{len(fleet.doubts) - MOST_DOUBTS} more tables are in doubt; `lakewarden doctor` names them all."
    if not fleet.memory.rows:
        yield (
            "This deployment remembers no earlier plan. A table that its catalog has lost before now is not missed, and a "
            "table that cannot be read protects its own directory only."
        )
    for state in fleet.states:
        known = fleet.memory.of(state)
        if not state.is_visible and (known is None or not known.seen_location):
            yield (
                f"{state.identifier} cannot be read, and nothing is remembered of it: what it needs outside its own "
                f"directory ({state.location or 'unknown'}) is not known and not protected."
            )
    for catalog in sorted({catalog_of(s.identifier) for s in fleet.states if s.refusal and s.refusal.code == NESSIE}):
        yield (
            f"catalog {catalog} is served by Nessie: what its other branches need in the directories of other catalogs' "
            "tables is not known and not protected."
        )


def _row(
    state: TableState,
    before: KnownTable | None,
    found: Reached | None,
    named: Iterable[str],
    now: datetime,
    *,
    ages: bool,
) -> KnownTable | None:
    """What to remember of a table. Places are only ever added. `found` is None if its manifests were not read.

    `ages`: its metadata grows older never. A format that sets its tables back by design (a rollback removes snapshots)
    has no newest metadata to go by.
    """
    roots = [FileUri.parse(root).as_prefix() for root in state.roots]
    if not state.is_visible:
        # A table that nobody could read yet is known by its directory at least.
        if before is not None:
            return before._replace(absent_since=None)
        unread = KnownTable(state.identifier, "", 0, 0, (), now, roots=tuple(roots), first_seen=now)
        return unread if roots else None
    old = before or KnownTable(state.identifier, state.uuid, 0, 0, (), now, first_seen=now)
    whole = found is not None and not found.damaged
    found = found or Reached()
    live = found.live or Tally(old.live_files, old.live_bytes)
    return KnownTable(
        identifier=state.identifier,
        uuid=state.uuid,
        live_files=live.files,
        live_bytes=live.bytes,
        outside_roots=tuple(sorted({*old.outside_roots, *found.outside, *named})),
        at=old.at,
        metadata_location=found.whole or old.metadata_location,
        roots=tuple(sorted({*old.roots, *roots})),
        seen_location=state.metadata_location if whole else old.seen_location,
        seen_ms=(state.updated_ms if ages else 0) if whole else old.seen_ms,
        first_seen=old.first_seen,
    )


def _missing_and_gone(memory: Memory, look: Look) -> tuple[list[KnownTable], list[KnownTable]]:
    """Tables that no catalog lists for the first time; and rows that may be forgotten: of tables that were dropped or
    abandoned, and under names that their table has no more, whose places stand under its new name now."""
    elsewhere, healthy = look.elsewhere, look.healthy(memory)
    missing: list[KnownTable] = []
    gone: list[KnownTable] = []
    for row in memory.rows:
        state, is_there = now_of(row, look, elsewhere, memory)
        if is_there:
            if state is not None and state.is_visible and (state.identifier, state.uuid) != row.key:
                gone.append(row)
        elif look.gave_up(row) or is_believed_dropped(row, healthy, look.at):
            gone.append(row)
        elif row.absent_since is None:
            missing.append(row._replace(absent_since=look.at))
    return missing, gone


def _outside_of(fleet: Fleet) -> Callable[[TableState], Iterator[str]]:
    """The roots of others that hold files which a table's metadata itself names."""
    prefixes = [root.prefix for root in fleet.roots]  # in order, and none within another

    def outside(state: TableState) -> Iterator[str]:
        for key in named_outside(state):
            at = bisect_right(prefixes, key) - 1
            if at >= 0 and key.startswith(prefixes[at]) and state.identifier not in fleet.roots[at].tables:
                yield prefixes[at]

    return outside
