"""The runbook: a page for each error code, which every refusal and failure links to."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import Response

from lakewarden.model.errors import NotFoundError
from lakewarden.service.access import Asked, Viewer
from lakewarden.service.html.error_docs import error_doc
from lakewarden.service.html.page import page

router = APIRouter(include_in_schema=False)


@router.get("/errors/{code}")
def show(code: str, request: Request, service: Asked, user: Viewer) -> Response:
    found = error_doc(code)
    if found is None:
        raise NotFoundError(f"there is no error code {code}")
    title, text = found
    tables = service.ledger.fleet.page(code=code, sort="identifier", limit=10)
    content = {"heading": code, "title": title, "text": text, "tables": tables, "code": code}
    return page(request, service, user, "error_doc.html", content)
