"""One table: its health and why, its snapshots and refs, its files, what retention would release, its policy, its runs."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import Response

from lakewarden.model.errors import NotFoundError
from lakewarden.model.service import RequestKind
from lakewarden.service.access import Asked, Operator, Viewer
from lakewarden.service.html.asks import ask
from lakewarden.service.html.page import Said, page, see
from lakewarden.service.html.table import table_content

router = APIRouter(include_in_schema=False)


@router.get("/tables/{identifier:path}")
def show(identifier: str, request: Request, service: Asked, user: Viewer) -> Response:
    row = service.ledger.fleet.get(identifier)
    if row is None:
        raise NotFoundError(
            f"the last look at the fleet saw no table {identifier}",
            hint="The page Tables lists all that were seen; a table that was made since appears with the next look.",
        )
    content = {"heading": identifier, **table_content(service, row)}
    return page(request, service, user, "table.html", content, here="/tables")


@router.post("/forecast")
def forecast(service: Asked, user: Operator, table: Said) -> Response:
    if service.ledger.fleet.get(table) is None:
        raise NotFoundError(f"the last look at the fleet saw no table {table}; nothing was asked for")
    asked = ask(service, user, RequestKind.FORECAST, arguments={"select": [table]})
    return see(f"/requests/{asked.request_id}", "The runner was asked for a forecast.")
