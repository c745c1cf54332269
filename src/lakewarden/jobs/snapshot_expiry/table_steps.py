"""What a format may do to a table while it expires it: each step under the leases, on the record, through the one door."""

from __future__ import annotations

import gzip
import hashlib
import threading
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from lakewarden.ledger.archives import Archive
from lakewarden.model.history import Archived
from lakewarden.model.ports import FileOutcome, JournalFile
from lakewarden.steps.apply.guard import check_frozen
from lakewarden.steps.deployment import Deployment
from lakewarden.steps.history.floor import ArchiveFloor
from lakewarden.storage.delete import delete, grant

GZIP_MAGIC = b"\x1f\x8b"


@dataclass(frozen=True)
class TableSteps:
    """The steps that a format may take on one table in one run. `changing` is set before the first that may change it.

    `planned` are the snapshots that the plan expires; `resumed`: a process before this one may have taken steps.
    """

    deployment: Deployment
    run_id: str
    plan_id: str
    table: str
    uuid: str
    roots: Sequence[str]
    began: float
    check_leases: Callable[[], None]
    turn: threading.Lock
    in_use_since: datetime | None
    in_use_snapshots: Collection[int]
    planned: Sequence[int]
    resumed: bool
    floor: ArchiveFloor | None = None
    changing: threading.Event = field(default_factory=threading.Event)

    @property
    def now(self) -> datetime:
        return self.deployment.clock.now()

    @property
    def announced(self) -> frozenset[int] | None:
        """What this run's archive of the table names, which is entered before the commit."""
        return frozenset(found.snapshots) if (found := self._archived()) else None

    def archived(self, snapshots: Collection[int]) -> Archived | None:
        """Which of the table's snapshots history has archived by now; None where that is not asked for."""
        return None if self.floor is None else self.floor.archived(self.uuid, snapshots)

    def archive(self, document: bytes, snapshots: Sequence[int]) -> None:
        """Keep the table's metadata in the state location, before anything of it goes."""
        self.check_leases()
        check_frozen(self.deployment, "no further table was expired")
        if (found := self._archived()) is not None:
            # The document of the first attempt holds whatever a later one takes.
            found = replace(found, snapshots=tuple(sorted({*found.snapshots, *snapshots})))
        else:
            found = self._kept(document, snapshots)
        self.deployment.ledger.archives.add(found)
        self.changing.set()

    def _archived(self) -> Archive | None:
        """What this run has kept of the table, by an earlier attempt or before a crash."""
        known = self.deployment.ledger.archives.of(self.uuid)
        if (found := next((one for one in known if one.run_id == self.run_id), None)) is not None:
            return found
        return self._forgotten() if self.resumed else None

    def _forgotten(self) -> Archive | None:
        """What this run has kept and the ledger does not know: it went back, or a crash came between the two.

        Which snapshots had been announced went with the entry. They were of the planned ones, so all of those count as
        announced: one of them that is gone may be gone by this run's own commit.
        """
        try:
            packed = self.deployment.stores.get(self._uri)
        except FileNotFoundError:
            return None
        found = self._entry(packed, self.planned)
        self.deployment.ledger.archives.add(found)
        return found

    def _kept(self, document: bytes, snapshots: Sequence[int]) -> Archive:
        packed = document if document.startswith(GZIP_MAGIC) else gzip.compress(document, compresslevel=6, mtime=0)
        self.deployment.stores.put(self._uri, packed)
        return self._entry(packed, snapshots)

    def _entry(self, packed: bytes, snapshots: Sequence[int]) -> Archive:
        digest = hashlib.sha256(packed).hexdigest()
        return Archive(self.run_id, self.table, self.uuid, self._uri, digest, tuple(snapshots), self.now)

    @property
    def _uri(self) -> str:
        return f"{self.deployment.state}archive/{self.uuid}/{self.run_id}.metadata.json.gz"

    def retire(self, files: Sequence[JournalFile]) -> Sequence[FileOutcome]:
        """Remove metadata files of expired snapshots: announced, through the one door, recorded."""
        if not files:
            return ()
        named = [JournalFile(f.uri, f.size, f.modified, f.etag, self.table, f.kind) for f in files]
        journal = self.deployment.ledger.journal
        self.changing.set()
        with self.turn:
            check_frozen(self.deployment, "no further table was expired")
            number = journal.next_batch(self.run_id)
            journal.intent(self.run_id, number, named)
            permit = grant(
                plan_id=self.plan_id,
                run_id=self.run_id,
                roots=self.roots,
                uris=[file.uri for file in named],
                validated_at=self.began,
                check_lease=self.check_leases,
            )
            outcomes = delete(permit, self.deployment.stores, named, self.deployment.clock)
            journal.outcomes(self.run_id, number, outcomes)
        return outcomes
