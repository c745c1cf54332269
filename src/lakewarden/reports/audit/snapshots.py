"""Snapshots by id, live and archived: which table has them, and what each says of itself. No Spark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakewarden.ledger.history import HistoryFile
from lakewarden.model.errors import LakewardenError
from lakewarden.model.table import TableState
from lakewarden.pipeline.history.rows import read_file, to_arrow
from lakewarden.reports.audit.asked import AskedSnapshot
from lakewarden.steps.deployment import Deployment
from lakewarden.steps.observe.fleet import load_states, pointers_of

FILES_AT_ONCE = 4


@dataclass(frozen=True)
class Known:
    """One snapshot: the archive's row of it, whether its table still has it, and the file that the row is in."""

    row: Mapping[str, Any]
    live: bool
    file: str | None = None

    @property
    def key(self) -> tuple[str, int, str]:
        return self.row["uuid"], self.row["snapshot_id"], self.row["digest"]

    @property
    def summary(self) -> Mapping[str, str]:
        return dict(self.row["summary"] or ())


@dataclass(frozen=True)
class Snapshots:
    """The snapshots of a deployment at one moment. Tables that cannot be read are named in `unread`.

    `loaded` are its tables, where they have been read already.
    """

    deployment: Deployment
    loaded: Sequence[TableState] | None = None
    unread: dict[str, str] = field(default_factory=dict)
    _called: dict[str, set[str]] = field(default_factory=dict)  # by name, the uuids of the tables that have or had it

    @cached_property
    def states(self) -> Sequence[TableState]:
        if self.loaded is not None:
            return self.loaded
        now = self.deployment.clock.now()
        return load_states(pointers_of(self.deployment.formats.values()).values(), now)

    @cached_property
    def live(self) -> Sequence[pa.Table]:
        """HISTORY of each table as it is now."""
        return [found for state in self.states if (found := self._of(state)) is not None]

    @cached_property
    def lost(self) -> dict[str, str]:
        """Files of the archive that are noted as lost: what they held is in no answer."""
        return {file.uri: file.lost for file in self.deployment.ledger.history.files() if file.lost is not None}

    def _of(self, state: TableState) -> pa.Table | None:
        historian = self.deployment.format_of(state.identifier).historian
        try:
            if historian is None or (state.refusal is not None and not state.is_visible):
                self.unread[state.identifier] = state.refusal.message if state.refusal else "its format has no history"
                return None
            return to_arrow(state, historian.rows(state))
        except LakewardenError as error:
            self.unread[state.identifier] = error.message
            return None

    def find(self, ids: Iterable[int]) -> list[Known]:
        """Every snapshot of these ids, of whichever table; live ones first. Raises ArchiveDamagedError."""
        wanted = sorted(set(ids))
        found: dict[tuple[str, int, str], Known] = {}
        for state in self.states:
            self._called.setdefault(state.identifier, set()).add(state.uuid)
        for table in self.live:
            for row in table.filter(pc.is_in(table["snapshot_id"], pa.array(wanted, pa.int64()))).to_pylist():
                known = Known(row, live=True)
                found.setdefault(known.key, known)
        places = self.deployment.ledger.history.with_ids(wanted)
        for known in self.archived((place.file for place in places if place.file.lost is None), wanted):
            self._called.setdefault(known.row["identifier"], set()).add(known.row["uuid"])
            there = found.get(known.key)
            found[known.key] = known if there is None else replace(there, file=known.file)
        return list(found.values())

    def archived(self, files: Iterable[HistoryFile], ids: Sequence[int]) -> Iterator[Known]:
        """The rows that some files of the archive have of snapshots of these ids. Raises ArchiveDamagedError."""
        several = list({file.uri: file for file in files}.values())
        wanted = pa.array(ids, pa.int64())
        with ThreadPoolExecutor(FILES_AT_ONCE) as pool:
            read = pool.map(lambda file: read_file(self.deployment.stores, file.uri, file.sha256), several)
            for file, table in zip(several, read, strict=True):
                rows = table.filter(pc.is_in(table["snapshot_id"], wanted)).to_pylist()
                yield from (Known(row, live=False, file=file.uri) for row in rows)

    def of(self, wanted: AskedSnapshot) -> list[Known]:
        """The snapshots that a question names: more than one where it names no table and several have the id."""
        found = self.find([wanted.snapshot_id])
        if wanted.table and found and not any(self.is_of(known, wanted.table) for known in found):
            self._remember_names()
        return [known for known in found if not wanted.table or self.is_of(known, wanted.table)]

    def _remember_names(self) -> None:
        """Every name that a table had when one of its snapshots was archived: a snapshot's own row has only one of them."""
        for file in self.deployment.ledger.history.files():
            if file.lost is None:
                rows = read_file(self.deployment.stores, file.uri, file.sha256, ("identifier", "uuid"))
                for row in rows.group_by(["identifier", "uuid"]).aggregate([]).to_pylist():
                    self._called.setdefault(row["identifier"], set()).add(row["uuid"])

    def is_of(self, known: Known, table: str) -> bool:
        """Whether a snapshot that was found is of the table of this uuid, or of one that is or was called so."""
        return known.row["uuid"] == table or known.row["uuid"] in self._called.get(table, ())
