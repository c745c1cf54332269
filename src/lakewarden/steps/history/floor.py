"""What expiry asks of the archive: which snapshots are safely in it, so that they may go."""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping

from lakewarden.ledger.history import HistoryFile
from lakewarden.model.errors import ArchiveDamagedError, UnsupportedTableError
from lakewarden.model.history import Archived, HistoryPolicy
from lakewarden.model.policy import Job
from lakewarden.model.table import TableState
from lakewarden.pipeline.history.rows import checked
from lakewarden.steps.deployment import Deployment


class ArchiveFloor:
    """The archive as one plan or one run of expiry asks it: each file is read once, and counts only if it is whole."""

    def __init__(self, deployment: Deployment) -> None:
        self._deployment = deployment
        self._damage: dict[str, str | None] = {}
        self._turn = threading.Lock()

    def holds(self, identifier: str, properties: Mapping[str, str], uuid: str) -> bool:
        """Whether a table's snapshots may go only when they are archived."""
        policy = self._deployment.policy_for(Job.HISTORY, identifier, properties, uuid=uuid, unsafe_short_grace=())
        # A policy that cannot be trusted keeps: what it says is at least what the sections say.
        return policy.refusal is not None or HistoryPolicy.of(policy.values).is_floor

    def of_table(self, state: TableState) -> Archived:
        """The same of every snapshot that a table has now. Raises UnsupportedTableError where no snapshot can be archived."""
        historian = self._deployment.format_of(state.identifier).historian
        if historian is None:
            raise UnsupportedTableError(
                f"snapshots of {state.format} tables cannot be archived by this version, and [history] wants them to be; "
                "nothing of it is touched"
            )
        return self.archived(state.uuid, {row.snapshot_id for row in historian.rows(state)})

    def archived(self, uuid: str, snapshots: Collection[int]) -> Archived:
        """Which of a table's snapshots the archive holds. Raises StoreUnavailableError if it cannot be read."""
        digests, damaged = set(), {}
        for place in self._deployment.ledger.history.of_table(uuid, snapshots):
            if (why := self._damaged(place.file)) is None:
                digests.add(place.key.digest)
            else:
                damaged[place.key.digest] = f"a snapshot of which {why}"
        return Archived(frozenset(digests), damaged)

    def _damaged(self, file: HistoryFile) -> str | None:
        with self._turn:
            if file.uri not in self._damage:
                self._damage[file.uri] = self._look(file)
            return self._damage[file.uri]

    def _look(self, file: HistoryFile) -> str | None:
        if file.lost is not None:
            return file.lost
        try:
            checked(self._deployment.stores, file.uri, file.sha256)
        except ArchiveDamagedError as error:
            return error.message
        return None
