"""How far a cleanup is, for people and for a restart: one row a run, overwritten as it goes."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import select

from lakewarden.ledger.connection import Connections
from lakewarden.ledger.schema import progress


@dataclass(frozen=True, slots=True)
class CleanupProgress:
    """Counts at a checkpoint. `scope` is the table or root at work."""

    run_id: str
    started_at: datetime
    scope: str
    total_candidates: int
    processed: int
    deleted: int
    failed: int
    last_checkpoint_at: datetime


class Progress:
    """Read here, and written by the journal with the outcome of each batch."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    def get(self, run_id: str) -> CleanupProgress | None:
        """The newest checkpoint of a run."""
        with self._connections.read() as connection:
            row = connection.execute(select(progress).where(progress.c.run_id == run_id)).first()
        return CleanupProgress(**row._mapping) if row else None
