"""Which released files may go where a policy asks for a cold copy first.

No file goes before every snapshot that expiry took from the table can be opened in the cold place: until then a file may
be needed to make a copy. Data, delete and statistics files need a verified copy of this table's own besides; one that
another table made of the same file is another table's to keep. A copy counts as long as it is there. Tables that share a
directory wait for each other: who released a file says little about who needed it. Where no expired snapshot is known,
as of a format that is not handed over, everything stays.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.compute as pc

from lakewarden.ledger.cold import ColdFile, ColdSnapshot
from lakewarden.ledger.database import Ledger
from lakewarden.model.errors import StoreUnavailableError
from lakewarden.model.plan import TablePlan
from lakewarden.model.policy import Job
from lakewarden.model.table import TableState
from lakewarden.model.uri import FileUri
from lakewarden.model.verdict import Kind
from lakewarden.storage.copying import sizes_at
from lakewarden.storage.stores import Stores

METADATA = (Kind.METADATA, Kind.MANIFEST_LIST, Kind.MANIFEST)
THREADS = 16
_UNSEEN = "its cold place cannot be looked at: "
_ANY_TIME = datetime(9999, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class ColdTable:
    """Where the cold place has every expired snapshot of a table and of those that share its roots: (uuid, directory)."""

    places: frozenset[tuple[str, str]]

    def owns(self, copy: ColdFile) -> bool:
        return any(copy.uuid == uuid and copy.cold_uri.startswith(directory) for uuid, directory in self.places)


@dataclass(frozen=True, slots=True)
class ColdCopies:
    """The tables that ask for a copy, and those of them of which the cold place has every expired snapshot.

    `blocked` says why a table's files wait, where somebody has to do something about it; `lost`, by table and uri, what
    became of a copy. Without `stores` nobody looks whether the copies are still there.
    """

    ledger: Ledger
    tables: pa.Array
    handed: Mapping[str, ColdTable]
    blocked: dict[str, str] = field(default_factory=dict)
    stores: Stores | None = None
    lost: dict[tuple[str, str], str] = field(default_factory=dict)

    @staticmethod
    def of(
        ledger: Ledger, states: Iterable[TableState], asking: Collection[str], *, stores: Stores | None = None
    ) -> ColdCopies:
        """What the ledger knows of the tables that ask, now, and what lies in the cold place."""
        asked = [state for state in states if state.identifier in asking]
        with ThreadPoolExecutor(THREADS) as pool:
            found = list(pool.map(lambda state: _handed(ledger, stores, state), asked))
        answers = {state.identifier: answer for state, answer in zip(asked, found, strict=True)}
        handed = {name: answer for name, answer in answers.items() if isinstance(answer, ColdTable)}
        for tables in _sharing(asked):
            if late := next((name for name in tables if name not in handed), None):
                shared = {name: f"{late}, which has files in the same directory, is not handed over" for name in tables}
                answers |= {name: shared[name] for name in tables if handed.pop(name, None) is not None}
            else:
                together = ColdTable(frozenset[tuple[str, str]]().union(*(handed[name].places for name in tables)))
                handed |= dict.fromkeys(tables, together)
        waiting = {name: answer for name, answer in answers.items() if isinstance(answer, frozenset)}
        blocked = {name: answer for name, answer in answers.items() if isinstance(answer, str)}
        blocked |= _lost(ledger, waiting)
        return ColdCopies(ledger, pa.array(sorted(answers), pa.string()), handed, blocked, stores)

    def may_go(self, files: pa.Table) -> pa.ChunkedArray:
        """For each file, by `uri`, `table` and `kind`: whether nothing of it waits for the cold tier."""
        free = pc.invert(pc.is_in(files["table"], self.tables))
        if not len(self.tables) or pc.all(free, min_count=0).as_py():
            return free
        handed = pc.is_in(files["table"], pa.array(sorted(self.handed), pa.string()))
        metadata = pc.is_in(files["kind"], pa.array([str(kind) for kind in METADATA]))
        asked = files.filter(handed).select(["uri", "table"])
        copied, gone = self._copies(asked)
        whole = pc.if_else(metadata, pc.invert(_in(files, gone)), _in(files, copied))
        return pc.or_(free, pc.and_(handed, whole))

    def _copies(self, files: pa.Table) -> tuple[set[tuple[str, str]], set[tuple[str, str]]]:
        """Table and uri of the files whose copies are all there, and of those of which one is gone."""
        tables: dict[str, list[str]] = {}
        for uri, table in zip(files["uri"].to_pylist(), files["table"].to_pylist(), strict=True):
            tables.setdefault(uri, []).append(table)
        own = [
            (table, copy)
            for copy in self.ledger.cold.copies(tables)
            for table in tables[copy.uri]
            if self.handed[table].owns(copy)
        ]
        sizes = [copy.size for _, copy in own]
        try:
            found = sizes if self.stores is None else sizes_at(self.stores, [copy.cold_uri for _, copy in own])
        except StoreUnavailableError as error:
            # Other tables' files need not wait for this cold place, and these lose nothing by waiting.
            self.blocked.update({table: _UNSEEN + error.message for table, _ in own})
            self.lost.update({(table, copy.uri): _UNSEEN + error.message for table, copy in own})
            return set(), {(table, copy.uri) for table, copy in own}
        gone: set[tuple[str, str]] = set()
        for (table, copy), size, there in zip(own, sizes, found, strict=True):
            if there != size:
                gone.add((table, copy.uri))
                what = "is gone" if there is None else f"has {there} bytes where {size} were copied"
                self.lost[table, copy.uri] = f"the cold copy {copy.cold_uri} of {copy.uri} {what}"
                self.blocked.setdefault(table, self.lost[table, copy.uri])
        return {(table, copy.uri) for table, copy in own} - gone, gone


def _sharing(states: Sequence[TableState]) -> Iterator[list[str]]:
    """Names of tables that share a root, directly or through others."""
    leader = {state.identifier: state.identifier for state in states}
    first: dict[str, str] = {}

    def led(name: str) -> str:
        while leader[name] != name:
            name = leader[name]
        return name

    for state in states:
        for root in state.roots:
            other = first.setdefault(FileUri.parse(root).as_prefix(), state.identifier)
            leader[led(other)] = led(state.identifier)
    groups: dict[str, list[str]] = {}
    for name in leader:
        groups.setdefault(led(name), []).append(name)
    yield from (sorted(names) for names in groups.values() if len(names) > 1)


def _in(files: pa.Table, wanted: set[tuple[str, str]]) -> pa.Array:
    pairs = zip(files["table"].to_pylist(), files["uri"].to_pylist(), strict=True)
    return pa.array([pair in wanted for pair in pairs], pa.bool_())


def _handed(ledger: Ledger, stores: Stores | None, state: TableState) -> ColdTable | frozenset[int] | str:
    """Where every snapshot that left the table can be opened; or those that cannot; or, as text, what is wrong there.

    One that was archived and then did not go, because the commit failed, is not waited for.
    """
    archived = {snapshot for archive in ledger.archives.of(state.uuid) for snapshot in archive.snapshots}
    if not archived:
        return "no snapshot of it that expired is known, so none can be handed over"
    expired = archived - state.snapshot_ids
    cold = {snapshot.snapshot_id: snapshot for snapshot in ledger.cold.snapshots(state.uuid)}
    if waiting := expired - cold.keys():
        return frozenset(waiting)
    if (closed := why_closed(stores, cold.values())) is not None:
        return closed
    return ColdTable(frozenset((state.uuid, prefix_of(snapshot)) for snapshot in cold.values()))


def why_closed(stores: Stores | None, snapshots: Iterable[ColdSnapshot]) -> str | None:
    """Why one of these, in the order in which they came, cannot be opened in the cold place."""
    # The newest metadata of a directory names all its snapshots; without it none of them opens.
    newest = {snapshot.destination: snapshot.metadata_uri for snapshot in snapshots}
    try:
        gone = [uri for uri in newest.values() if stores is not None and stores.head(uri) is None]
    except StoreUnavailableError as error:
        return _UNSEEN + error.message
    return f"the cold table's metadata {gone[0]} is gone" if gone else None


def prefix_of(snapshot: ColdSnapshot) -> str:
    """The directory in which a snapshot was handed over, as copies in it begin."""
    return FileUri.parse(snapshot.destination).as_prefix()


def _lost(ledger: Ledger, waiting: Mapping[str, Collection[int]]) -> dict[str, str]:
    """Why the newest handover plan left out what a table waits for: a snapshot that lost a file never goes."""
    saved = ledger.plans.newest_before(Job.TIER_HANDOFF, _ANY_TIME) if waiting else None
    plan = ledger.plans.header(saved.plan_id) if saved is not None else None
    found: dict[str, str] = {}
    for table in plan.tables if plan is not None else ():
        if (why := _left_out(table, waiting.get(table.identifier, ()))) is not None:
            found[table.identifier] = why
    return found


def _left_out(table: TablePlan, waiting: Collection[int]) -> str | None:
    if waiting and table.refusal is not None:
        return f"its snapshots cannot be handed over: {table.refusal.message}"
    for line in table.detail.get("keep", ()):
        if line["snapshot_id"] in waiting:
            return f"the expired snapshot {line['snapshot_id']} cannot be handed over: {line['reason']}"
    return None
