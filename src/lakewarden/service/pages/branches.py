"""Branches and tags of the fleet, as the last look saw them and the newest plan judged them."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import Response

from lakewarden.service.access import Asked, Viewer
from lakewarden.service.html.branches import branch_rows, broken_tables, newest_judgement
from lakewarden.service.html.page import page
from lakewarden.service.html.paging import PAGE, Pages, place_of

router = APIRouter(include_in_schema=False)


@router.get("/branches")
def show(request: Request, service: Asked, user: Viewer) -> Response:
    search = request.query_params.get("search", "").strip()
    offset = place_of(request.query_params.get("offset"))
    judged = newest_judgement(service)
    rows, total = branch_rows(service, judged, search, offset, PAGE)
    content = {
        "heading": "Branches",
        "rows": rows,
        "search": search,
        "judged": judged,
        "broken": broken_tables(service),
        "pages": Pages.of("/branches", {"search": search}, offset, len(rows), total),
    }
    return page(request, service, user, "branches.html", content, here="/branches")
