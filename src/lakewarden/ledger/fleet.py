"""Every table as it was last observed: what pages and the API answer from, in milliseconds at ten thousand tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import Row, case, delete, func, or_, select

from lakewarden.ledger.connection import Connections, chunks, put
from lakewarden.ledger.service_schema import fleet

_CHUNK = 500
# Worst first, as people look for them.
_HEALTH = ("refused", "attention", "healthy")
SORTS = ("identifier", "health", "bytes", "files", "snapshots", "reclaimable_bytes", "orphan_share", "newest_commit_at")


@dataclass(frozen=True, slots=True)
class FleetRow:
    """One table. None where nobody has counted; `code` is the first of the reasons in `codes`."""

    identifier: str
    catalog: str
    namespace: str
    tenant: str
    format: str
    uuid: str
    health: str
    observed_at: datetime
    code: str | None = None
    codes: list[str] = field(default_factory=list)
    snapshots: int = 0
    refs: int = 0
    files: int | None = None
    bytes: int | None = None
    small_files: int | None = None
    delete_files: int | None = None
    reclaimable_bytes: int = 0
    orphan_share: float | None = None
    newest_commit_at: datetime | None = None
    detail: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FleetPage:
    """Some tables of those that match, and how many match in all."""

    rows: list[FleetRow]
    total: int


@dataclass(frozen=True, slots=True)
class FleetSummary:
    """The fleet in a few numbers."""

    tables: int
    files: int
    bytes: int
    reclaimable_bytes: int
    health: Mapping[str, int]
    formats: Mapping[str, int]
    tenants: Mapping[str, int]
    codes: Mapping[str, int]
    observed_at: datetime | None


class FleetTables:
    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    def replace(self, rows: Iterable[FleetRow], observed_at: datetime) -> None:
        """What an observation of the whole fleet saw, instead of what was seen before."""
        with self._connections.write() as connection:
            for some in chunks(rows, _CHUNK):
                put(connection, fleet, [asdict(row) | {"observed_at": observed_at} for row in some])
            connection.execute(delete(fleet).where(fleet.c.observed_at < observed_at))

    def get(self, identifier: str) -> FleetRow | None:
        with self._connections.read() as connection:
            row = connection.execute(select(fleet).where(fleet.c.identifier == identifier)).first()
        return _row(row) if row else None

    def page(
        self,
        *,
        search: str = "",
        health: str | None = None,
        tenant: str | None = None,
        format: str | None = None,
        code: str | None = None,
        sort: str = "health",
        descending: bool = False,
        offset: int = 0,
        limit: int = 50,
    ) -> FleetPage:
        """The tables that match, in order. Raises ValueError for an order that there is not."""
        if sort not in SORTS:
            raise ValueError(f"tables are not sorted by {sort!r}; allowed: {', '.join(SORTS)}")
        asked = {"health": health, "tenant": tenant, "format": format, "code": code}
        conditions = [fleet.c[name] == value for name, value in asked.items() if value]
        if search:
            named = func.lower(fleet.c.identifier).contains(search.lower(), autoescape=True)
            conditions.append(or_(named, fleet.c.uuid == search))
        key: Any = _by_health() if sort == "health" else fleet.c[sort]
        # What nobody has counted comes last, whichever way the others are sorted.
        order = [key.is_(None), key.desc() if descending else key, fleet.c.identifier]
        return self._some(conditions, order, offset, limit)

    def with_refs(self, *, search: str = "", offset: int = 0, limit: int = 50) -> FleetPage:
        """The tables that have branches or tags beside their main branch, those with the most first."""
        conditions = [fleet.c.refs > 1]
        if search:
            conditions.append(func.lower(fleet.c.identifier).contains(search.lower(), autoescape=True))
        return self._some(conditions, [fleet.c.refs.desc(), fleet.c.identifier], offset, limit)

    def _some(self, conditions: Sequence[Any], order: Sequence[Any], offset: int, limit: int) -> FleetPage:
        # Names first: a database that sorts whole rows carries along what is kept of every table.
        query = select(fleet.c.identifier).where(*conditions).order_by(*order).offset(offset).limit(limit)
        with self._connections.read() as connection:
            names = list(connection.execute(query).scalars())
            found = connection.execute(select(fleet).where(fleet.c.identifier.in_(names)))
            rows = sorted(map(_row, found), key=lambda row: names.index(row.identifier))
            total = connection.execute(select(func.count()).select_from(fleet).where(*conditions)).scalar_one()
        return FleetPage(rows, total)

    def summary(self) -> FleetSummary:
        sums = select(
            func.count(),
            func.coalesce(func.sum(fleet.c.files), 0),
            func.coalesce(func.sum(fleet.c.bytes), 0),
            func.coalesce(func.sum(fleet.c.reclaimable_bytes), 0),
            func.max(fleet.c.observed_at),
        )
        with self._connections.read() as connection:
            tables, files, size, reclaimable, observed = connection.execute(sums).one()
            by = {
                name: {
                    str(key): int(count)
                    for key, count in connection.execute(
                        select(fleet.c[name], func.count())
                        .where(fleet.c[name].is_not(None))
                        .group_by(fleet.c[name])
                        .order_by(func.count().desc(), fleet.c[name])
                    )
                }
                for name in ("health", "format", "tenant", "code")
            }
        return FleetSummary(
            tables=int(tables),
            files=int(files),
            bytes=int(size),
            reclaimable_bytes=int(reclaimable),
            health={name: by["health"].get(name, 0) for name in _HEALTH},
            formats=by["format"],
            tenants=by["tenant"],
            codes=by["code"],
            observed_at=observed,
        )


def _by_health() -> Any:
    return case({name: place for place, name in enumerate(_HEALTH)}, value=fleet.c.health, else_=len(_HEALTH))


def _row(row: Row[Any]) -> FleetRow:
    return FleetRow(**row._mapping)
