"""Heartbeats and lineage, as users of the Python API and of the service ask for them: what writers ask of the Warden."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakewarden.model.actor import Trigger
from lakewarden.model.arguments import checks_arguments
from lakewarden.model.errors import UsageError
from lakewarden.model.lineage import Requirements
from lakewarden.model.margins import MARGINS
from lakewarden.model.ports import Heartbeat
from lakewarden.model.table import TableState
from lakewarden.model.uri import is_address

if TYPE_CHECKING:
    from lakewarden.settings import Settings
    from lakewarden.steps.deployment import Deployment
    from lakewarden.writers import Lineage


@dataclass(frozen=True)
class _Known:
    """The configuration, as far as writers ask it. Catalogs are opened for a name and not before."""

    requirements_for: Callable[[str, Mapping[str, str]], Requirements]
    table: Callable[[str], TableState]


@checks_arguments
class WritersAtWork:
    """Writers say here that they are at work. Every method raises LakewardenError and nothing else."""

    @property
    def _deployment(self) -> Deployment:
        raise NotImplementedError

    @property
    def worker(self) -> str:
        raise NotImplementedError

    _settings: Settings

    def heartbeat(
        self,
        table: str,
        *,
        writer: str | None = None,
        prefix: str | None = None,
        ttl_seconds: int = MARGINS.heartbeat_seconds,
    ) -> AbstractContextManager[None]:
        """While open, files that this writer began in the table's directories (or under `prefix`) count as in flight."""
        from lakewarden.steps.observe.heartbeat import beating

        place = self._prefix(prefix)
        places = [place] if place is not None else self._places(table)
        return beating(self._deployment, writer or self.worker, {table: places}, ttl_seconds)

    def beat(
        self,
        table: str,
        *,
        writer: str | None = None,
        prefix: str | None = None,
        ttl_seconds: int = MARGINS.heartbeat_seconds,
    ) -> tuple[Heartbeat, ...]:
        """One beat for a writer that calls again before its time to live is over, such as one that asks over HTTP.

        One for each directory of the table, its location first; of `prefix` alone where that is given.
        """
        from lakewarden.steps.observe.heartbeat import beat_once

        writer, place = writer or self.worker, self._prefix(prefix)
        return beat_once(self._deployment, writer, table, place, lambda: self._places(table), ttl_seconds)

    def lineage(
        self,
        writer: str,
        *,
        trigger: str = Trigger.SCHEDULE,
        operator: str | None = None,
        ticket: str | None = None,
        invocation: str | None = None,
        commit_hash: str | None = None,
    ) -> Lineage:
        """What a writer says with each of its commits, held to `[lineage]`, its overrides and the tables' properties.

        Tables and inputs may be named as `catalog.namespace.table`.
        """
        from lakewarden.writers import lineage

        return lineage(
            writer,
            trigger=trigger,
            operator=operator,
            ticket=ticket,
            invocation=invocation,
            commit_hash=commit_hash,
            fleet=_Known(self._settings.requirements_for, lambda identifier: self._table(identifier)),
        )

    def _table(self, identifier: str) -> TableState:
        from lakewarden.reports.tables import find_table

        return find_table(self._deployment, identifier)

    def _places(self, table: str) -> list[str]:
        from lakewarden.steps.observe.heartbeat import places_of

        return places_of(self._table(table))

    def _prefix(self, prefix: str | None) -> str | None:
        if prefix is not None and not is_address(prefix):
            raise UsageError(f"heartbeat: prefix {prefix!r} is not an address; no heartbeat began")
        return prefix
