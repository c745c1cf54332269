"""Heartbeats, as users of the Python API and of the service ask for them: the part of the Warden that writers talk to."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from lakewarden.model.arguments import checks_arguments
from lakewarden.model.errors import UsageError
from lakewarden.model.margins import MARGINS
from lakewarden.model.ports import Heartbeat
from lakewarden.model.uri import is_address

if TYPE_CHECKING:
    from lakewarden.steps.deployment import Deployment


@checks_arguments
class WritersAtWork:
    """Writers say here that they are at work. Every method raises LakewardenError and nothing else."""

    @property
    def _deployment(self) -> Deployment:
        raise NotImplementedError

    @property
    def worker(self) -> str:
        raise NotImplementedError

    def heartbeat(
        self,
        table: str,
        *,
        writer: str | None = None,
        prefix: str | None = None,
        ttl_seconds: int = MARGINS.heartbeat_seconds,
    ) -> AbstractContextManager[None]:
        """While open, files that this writer began under the table (or `prefix`) count as in flight."""
        from lakewarden.steps.observe.heartbeat import beating

        place = self._prefix(prefix) or self._location(table)
        return beating(self._deployment, writer or self.worker, table, place, ttl_seconds)

    def beat(
        self,
        table: str,
        *,
        writer: str | None = None,
        prefix: str | None = None,
        ttl_seconds: int = MARGINS.heartbeat_seconds,
    ) -> Heartbeat:
        """One beat for a writer that calls again before its time to live is over, such as one that asks over HTTP."""
        from lakewarden.steps.observe.heartbeat import beat_once

        writer, place = writer or self.worker, self._prefix(prefix)
        return beat_once(self._deployment, writer, table, place, lambda: self._location(table), ttl_seconds)

    def _location(self, table: str) -> str:
        from lakewarden.reports.tables import find_table

        return find_table(self._deployment, table).location

    def _prefix(self, prefix: str | None) -> str | None:
        if prefix is not None and not is_address(prefix):
            raise UsageError(f"heartbeat: prefix {prefix!r} is not an address; no heartbeat began")
        return prefix
