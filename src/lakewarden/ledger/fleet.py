"""Every table as it was last observed: what pages and the API answer from, in milliseconds at ten thousand tables."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from typing import Any, TypeVar

from sqlalchemy import Connection, Row, case, delete, func, or_, select

from lakewarden.ledger.connection import Connections, chunks, put
from lakewarden.ledger.remembered import Remembered
from lakewarden.ledger.service_schema import fleet, fleet_details

_CHUNK = 500
# How far the clocks of two daemons of one deployment may be from each other.
APART = timedelta(minutes=15)
# Pages of tables that are kept, of names and numbers: some twenty megabytes at most.
_REMEMBERED = 512
# Worst first, as people look for them.
_HEALTH = ("refused", "attention", "healthy")
T = TypeVar("T")
SORTS = ("identifier", "health", "bytes", "files", "snapshots", "reclaimable_bytes", "orphan_share", "newest_commit_at")


@dataclass(frozen=True, slots=True)
class FleetRow:
    """One table. None where nobody has counted; `code` is the first of the reasons in `codes`. Lists have no `detail`."""

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
    """One look at the whole fleet at a time. Answers are remembered until the next look, whoever makes it."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._remembered = Remembered(_REMEMBERED)

    def replace(self, rows: Iterable[FleetRow], observed_at: datetime) -> None:
        """What an observation of the whole fleet saw, instead of what was seen before."""
        with self._connections.write() as connection:
            for some in chunks(rows, _CHUNK):
                values = [asdict(row) | {"observed_at": observed_at} for row in some]
                put(connection, fleet_details, [{name: row[name] for name in _DETAIL} for row in values])
                put(connection, fleet, [{name: row[name] for name in fleet.c.keys()} for row in values])  # noqa: SIM118
            # A row of the future was seen by a clock that went ahead.
            old = or_(fleet.c.observed_at < observed_at, fleet.c.observed_at > observed_at + APART)
            connection.execute(delete(fleet).where(old))
            seen = select(fleet.c.identifier)
            connection.execute(delete(fleet_details).where(fleet_details.c.identifier.not_in(seen)))

    def get(self, identifier: str) -> FleetRow | None:
        with self._connections.read() as connection:
            row = connection.execute(_WITH_DETAIL.where(fleet.c.identifier == identifier)).first()
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
        detailed: bool = False,
    ) -> FleetPage:
        """The tables that match, in order, with their detail where asked. Raises ValueError for no such order."""
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
        question = ("page", search, *asked.values(), sort, descending, offset, limit, detailed)
        return self._answer(question, lambda connection: _some(connection, conditions, order, offset, limit, detailed))

    def with_refs(self, *, search: str = "", offset: int = 0, limit: int = 50) -> FleetPage:
        """The tables that have branches or tags beside their main branch, with their detail, those with the most first."""
        conditions = [fleet.c.refs > 1]
        if search:
            conditions.append(func.lower(fleet.c.identifier).contains(search.lower(), autoescape=True))
        order = [fleet.c.refs.desc(), fleet.c.identifier]
        return self._answer(
            ("refs", search, offset, limit),
            lambda connection: _some(connection, conditions, order, offset, limit, True),
        )

    def summary(self) -> FleetSummary:
        return self._answer(("summary",), _summary)

    def _answer(self, question: Hashable, work_out: Callable[[Connection], T]) -> T:
        """What the last look says. Version and answer are read in one view, so that one never goes with another's."""
        with self._connections.read() as connection:
            # A look stamps what it saw, and drops what is older: no two leave the same oldest and newest row.
            oldest, newest = connection.execute(_VERSION).one()
            version = (oldest, newest) if oldest is not None else None
            return self._remembered.answer(version, question, lambda: work_out(connection))


def _some(
    connection: Connection, conditions: Sequence[Any], order: Sequence[Any], offset: int, limit: int, detailed: bool
) -> FleetPage:
    columns = _WITH_DETAIL if detailed else select(fleet)
    found = connection.execute(columns.where(*conditions).order_by(*order).offset(offset).limit(limit))
    rows = [_row(row) for row in found]
    total = connection.execute(select(func.count()).select_from(fleet).where(*conditions)).scalar_one()
    return FleetPage(rows, total)


def _summary(connection: Connection) -> FleetSummary:
    sums = select(
        func.count(),
        func.coalesce(func.sum(fleet.c.files), 0),
        func.coalesce(func.sum(fleet.c.bytes), 0),
        func.coalesce(func.sum(fleet.c.reclaimable_bytes), 0),
        func.max(fleet.c.observed_at),
    )
    tables, files, size, reclaimable, observed = connection.execute(sums).one()
    by = {name: _counts(connection, name) for name in ("health", "format", "tenant", "code")}
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


def _counts(connection: Connection, name: str) -> dict[str, int]:
    """How many tables have each value of a column, the most frequent first."""
    column = fleet.c[name]
    query = select(column, func.count()).where(column.is_not(None)).group_by(column)
    return {str(key): int(count) for key, count in connection.execute(query.order_by(func.count().desc(), column))}


# Each by the index: both in one go would read every row.
_VERSION = select(
    select(func.min(fleet.c.observed_at)).scalar_subquery(), select(func.max(fleet.c.observed_at)).scalar_subquery()
)
_DETAIL = ("identifier", "detail")
_WITH_DETAIL = select(fleet, fleet_details.c.detail).join(
    fleet_details, fleet_details.c.identifier == fleet.c.identifier
)


def _by_health() -> Any:
    return case({name: place for place, name in enumerate(_HEALTH)}, value=fleet.c.health, else_=len(_HEALTH))


def _row(row: Row[Any]) -> FleetRow:
    return FleetRow(**row._mapping)
