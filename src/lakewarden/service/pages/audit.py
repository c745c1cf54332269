"""A file's fate: what the journal says of it at once, and what catalogs and plans say once the runner has looked."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import Response

from lakewarden.model.service import RequestKind
from lakewarden.reports.asked_file import address_of
from lakewarden.service.access import Asked, Operator, Viewer
from lakewarden.service.html.asks import ask
from lakewarden.service.html.audit import EXPLAIN, decided, fate, removed_lately
from lakewarden.service.html.page import Said, page, see

router = APIRouter(include_in_schema=False)


@router.get("/audit")
def show(request: Request, service: Asked, user: Viewer) -> Response:
    uri = request.query_params.get("uri", "").strip()
    found = (
        fate(service, uri) if uri else {"fate": None, "removed": removed_lately(service), "decisions": decided(service)}
    )
    content = {"heading": "Audit", "uri": uri, **found}
    return page(request, service, user, "audit.html", content, here="/audit")


@router.post("/audit")
def explain(service: Asked, user: Operator, uri: Said) -> Response:
    """Ask the runner which tables need the file, in every catalog. Raises UsageError for what is no file's address."""
    key = address_of(uri.strip())
    asked = ask(service, user, RequestKind.AUDIT, arguments={"question": EXPLAIN, "uri": key})
    return see(f"/requests/{asked.request_id}", "The runner was asked which tables need the file.")
