"""`/api/v1/tables`: the fleet as it was last observed, page by page; one table; its policies; branches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query

from lakewarden.jobs.registry import JOBS
from lakewarden.ledger.fleet import FleetRow
from lakewarden.model.big_numbers import with_texts
from lakewarden.model.errors import NotFoundError
from lakewarden.model.redaction import redact
from lakewarden.service.access import Asked, Viewer
from lakewarden.service.api.shapes import ERRORS, Limit, Name, Offset, Open, Search, told
from lakewarden.service.service import Service

router = APIRouter(prefix="/api/v1", tags=["tables"], responses=ERRORS)

Health = Literal["refused", "attention", "healthy"]
Sort = Literal[
    "identifier", "health", "bytes", "files", "snapshots", "reclaimable_bytes", "orphan_share", "newest_commit_at"
]
Filter = Annotated[str | None, Query(max_length=300, pattern=r"^[^\x00]*$")]


class Table(Open):
    """One table as it was last observed. None where nobody has counted."""

    identifier: str
    format: str
    tenant: str
    uuid: str
    health: str
    codes: list[str]
    observed_at: datetime
    snapshots: int
    files: int | None
    bytes: int | None
    reclaimable_bytes: int
    orphan_share: float | None
    newest_commit_at: datetime | None


class Tables(Open):
    tables: list[Table]
    total: int
    offset: int
    limit: int


class Fleet(Open):
    """The fleet in a few numbers."""

    tables: int
    files: int
    bytes: int
    reclaimable_bytes: int
    health: dict[str, int]
    formats: dict[str, int]
    tenants: dict[str, int]
    codes: dict[str, int]
    observed_at: datetime | None


class Setting(Open):
    value: Any
    source: str


class Policies(Open):
    """By job and key, the value in effect and what set it."""

    table: str
    jobs: dict[str, dict[str, Setting]]


class Branches(Open):
    """Tables with branches and tags beside main."""

    tables: list[dict[str, Any]]
    total: int
    offset: int
    limit: int


@router.get("/tables")
def tables(
    user: Viewer,
    service: Asked,
    search: Search = "",
    health: Health | None = None,
    tenant: Filter = None,
    format: Filter = None,
    code: Filter = None,
    sort: Sort = "health",
    descending: bool = False,
    offset: Offset = 0,
    limit: Limit = 50,
) -> Tables:
    """The tables that match, worst first unless asked otherwise."""
    found = service.ledger.fleet.page(
        search=search,
        health=health,
        tenant=tenant,
        format=format,
        code=code,
        sort=sort,
        descending=descending,
        offset=offset,
        limit=limit,
    )
    rows = [_row(row) for row in found.rows]
    return Tables(tables=rows, total=found.total, offset=offset, limit=limit)


@router.get("/fleet")
def fleet(user: Viewer, service: Asked) -> Fleet:
    """All tables together, as they were last observed."""
    return Fleet(**told(asdict(service.ledger.fleet.summary())))


@router.get("/tables/{table}")
def table(user: Viewer, service: Asked, table: Name) -> Table:
    """One table: its health with the reasons, and what the last observation saw of it."""
    found = service.ledger.fleet.get(table)
    if found is None:
        raise NotFoundError(f"there is no table {table} among those that were observed")
    return Table(**told(asdict(found)))


@router.get("/tables/{table}/policy")
def policy(user: Viewer, service: Asked, table: Name) -> Policies:
    """The values in effect for a table, each with the place that set it, by the properties that the last look at it saw."""
    row = service.ledger.fleet.get(table)
    # A viewer's question asks no catalog that may take a minute to answer, but for a table that nobody has looked at yet.
    policies = seen_policies(service, row) if row is not None else service.warden.policies(table)
    found = {
        job: {key: Setting(value=redact(value, key), source=source) for key, (value, source) in values.items()}
        for job, values in policies.items()
    }
    return Policies(table=table, jobs=found)


def seen_policies(service: Service, row: FleetRow) -> Mapping[str, Mapping[str, tuple[Any, str]]]:
    """Every job's values for a table, as its properties were when it was last looked at."""
    said, policy_for = row.detail.get("properties", {}), service.settings.policy_for
    return {str(job): policy_for(job, row.identifier, said, uuid=row.uuid).sources() for job in JOBS}


@router.get("/branches")
def branches(user: Viewer, service: Asked, search: Search = "", offset: Offset = 0, limit: Limit = 50) -> Branches:
    """Tables that have branches or tags of their own, with the snapshot that each leads to."""
    found = service.ledger.fleet.with_refs(search=search, offset=offset, limit=limit)
    rows = [
        {"identifier": row.identifier, "format": row.format, "refs": row.detail.get("refs", [])} for row in found.rows
    ]
    return Branches(tables=told(rows), total=found.total, offset=offset, limit=limit)


_LISTED = tuple(name for name in FleetRow.__dataclass_fields__ if name != "detail")


def _row(row: FleetRow) -> Table:
    """A table in a list: names and numbers, without the detail, which the table's own address has."""
    return Table.model_construct(**with_texts({name: getattr(row, name) for name in _LISTED}))
