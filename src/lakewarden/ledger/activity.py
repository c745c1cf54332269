"""What happened, as pages show it: plans and runs page by page, bytes by day, failures, one table's part of the newest plans."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, func, select

from lakewarden.ledger.connection import Connections
from lakewarden.ledger.plans import SavedPlan
from lakewarden.ledger.runs import Run, run_of
from lakewarden.ledger.schema import journal, plan_views, plans, runs
from lakewarden.model.plan import Plan
from lakewarden.model.plan_view import View, view_of
from lakewarden.model.run import RunStatus

BAD = (RunStatus.FAILED.value, RunStatus.REFUSED.value, RunStatus.PARTIAL.value)
# Of all the headers that are looked through for one table: a page waits for it.
MOST_HEADER_BYTES = 24 << 20
_SAVED = [plans.c[name] for name in SavedPlan.__dataclass_fields__]


@dataclass(frozen=True, slots=True)
class ShownPlan:
    """A plan and what a page tells of it; no view for one that another deployment made."""

    saved: SavedPlan
    view: View | None


@dataclass(frozen=True, slots=True)
class Batch:
    """One entry of a run's journal, without its files."""

    batch_no: int
    kind: str
    at: datetime
    files: int
    bytes: int
    tallies: dict[str, list[int]] | None


class Activity:
    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    def runs(
        self, *, job: str | None = None, status: str | None = None, offset: int = 0, limit: int = 50
    ) -> tuple[list[Run], int]:
        """Some of the runs, newest first, and how many there are."""
        asked = {"job": job, "status": status}
        return self._runs([runs.c[name] == value for name, value in asked.items() if value], offset, limit)

    def failures(self, since: datetime, limit: int) -> tuple[list[Run], int]:
        """The runs that did not do all they should have, newest first."""
        return self._runs([runs.c.status.in_(BAD), runs.c.started_at >= since], 0, limit)

    def unfinished(self, limit: int = 20) -> list[Run]:
        return self._runs([runs.c.finished_at.is_(None)], 0, limit)[0]

    def _runs(self, conditions: Sequence[ColumnElement[bool]], offset: int, limit: int) -> tuple[list[Run], int]:
        query = select(runs).where(*conditions).order_by(runs.c.started_at.desc(), runs.c.run_id.desc())
        with self._connections.read() as connection:
            found = [run_of(row) for row in connection.execute(query.offset(offset).limit(limit))]
            total = connection.execute(select(func.count()).select_from(runs).where(*conditions)).scalar_one()
        return found, int(total)

    def reclaimed(self, since: datetime) -> list[tuple[datetime, int]]:
        """When runs ended, and how many bytes each freed. What lies in quarantine or hidden in a version is not free yet."""
        freed = runs.c.result["deleted"]["bytes"].as_integer()
        hidden = func.coalesce(runs.c.result["hidden"]["bytes"].as_integer(), 0)
        query = select(runs.c.finished_at, freed - hidden).where(runs.c.finished_at >= since, freed > 0)
        with self._connections.read() as connection:
            return [(at, int(size)) for at, size in connection.execute(query)]

    def plans(self, *, job: str | None = None, offset: int = 0, limit: int = 50) -> tuple[list[ShownPlan], int]:
        """Some of the plans, newest first, and how many there are."""
        conditions = [plans.c.created_at.is_not(None), *([plans.c.job == job] if job else [])]
        query = select(*_SAVED).where(*conditions).order_by(plans.c.created_at.desc(), plans.c.plan_id)
        with self._connections.read() as connection:
            saved = [SavedPlan(**row._mapping) for row in connection.execute(query.offset(offset).limit(limit))]
            total = connection.execute(select(func.count()).select_from(plans).where(*conditions)).scalar_one()
        views = self.views([one.plan_id for one in saved])
        return [ShownPlan(one, views.get(one.plan_id)) for one in saved], int(total)

    def views(self, plan_ids: Iterable[str]) -> dict[str, View]:
        """What pages tell of these plans."""
        query = select(plan_views).where(plan_views.c.plan_id.in_(list(plan_ids)))
        with self._connections.read() as connection:
            return {row.plan_id: row.view for row in connection.execute(query)}

    def view(self, plan_id: str) -> View | None:
        """What a page tells of one plan; of a plan that was made before views were kept, read from its header."""
        if (found := self.views([plan_id]).get(plan_id)) is not None:
            return found
        packed = self._header(plan_id)
        return view_of(Plan.loads(zlib.decompress(packed))) if packed else None

    def table_in_plans(self, identifier: str, limit: int = 12) -> list[tuple[SavedPlan, dict[str, Any]]]:
        """The table's part of the newest plans that name it, newest first, as far back as a page can wait for."""
        query = select(*_SAVED).where(plans.c.header.is_not(None)).order_by(plans.c.created_at.desc()).limit(limit)
        with self._connections.read() as connection:
            newest = [SavedPlan(**row._mapping) for row in connection.execute(query)]
        found, read = [], 0
        for saved in newest:
            packed = self._header(saved.plan_id)
            if packed is None or read > MOST_HEADER_BYTES:
                continue
            header = zlib.decompress(packed)
            read += len(header)
            if (part := _table_line(header, identifier)) is not None:
                found.append((saved, part))
        return found

    def tables_of_plan(self, plan_id: str, identifiers: Iterable[str]) -> dict[str, dict[str, Any]]:
        """Of one plan, the parts of these tables, by name: its header is unpacked once, and the others are not parsed."""
        packed = self._header(plan_id)
        header = zlib.decompress(packed) if packed else b""
        parts = {name: _table_line(header, name) for name in identifiers}
        return {name: part for name, part in parts.items() if part is not None}

    def _header(self, plan_id: str) -> bytes | None:
        with self._connections.read() as connection:
            found: bytes | None = connection.execute(select(plans.c.header).where(plans.c.plan_id == plan_id)).scalar()
        return found

    def batches(self, run_id: str, offset: int = 0, limit: int = 50) -> tuple[list[Batch], int]:
        """The newest entries of a run's journal first, and how many there are."""
        mine = journal.c.run_id == run_id
        columns = [journal.c[name] for name in ("batch_no", "kind", "at", "count", "total_bytes", "tallies")]
        query = select(*columns).where(mine).order_by(journal.c.seq.desc()).offset(offset).limit(limit)
        with self._connections.read() as connection:
            found = [Batch(*row) for row in connection.execute(query)]
            total = connection.execute(select(func.count()).select_from(journal).where(mine)).scalar_one()
        return found, int(total)


def _table_line(header: bytes, identifier: str) -> dict[str, Any] | None:
    """A table of a header, which has a line for each of its tables: only that line is parsed."""
    named = f'"identifier": {json.dumps(identifier, ensure_ascii=False)}, '.encode()
    at = header.find(named)
    if at < 0:
        return None
    begin, end = header.rfind(b"\n", 0, at) + 1, header.find(b"\n", at)
    try:
        found: dict[str, Any] = json.loads(header[begin : end if end >= 0 else len(header)].rstrip(b","))
    except ValueError:
        return None  # a header of another shape: the plan's own page tells of it
    return found
