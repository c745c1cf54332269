"""The tables of the fleet as they were last seen: searched, filtered, sorted, page by page."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import Response

from lakewarden.ledger.fleet import SORTS
from lakewarden.service.access import Asked, Viewer
from lakewarden.service.html.page import page
from lakewarden.service.html.paging import PAGE, Pages, Sorting, place_of

router = APIRouter(include_in_schema=False)

FILTERS = ("health", "tenant", "format", "code")
MOST_CHOICES = 200


@router.get("/tables")
def show(request: Request, service: Asked, user: Viewer) -> Response:
    said = request.query_params
    asked: dict[str, str] = {name: said.get(name, "").strip() for name in ("search", *FILTERS)}
    sort = said.get("sort", "health")
    sort, down = (sort, said.get("down") == "1") if sort in SORTS else ("health", False)
    offset = place_of(said.get("offset"))
    fleet = service.ledger.fleet
    found = fleet.page(
        search=asked["search"],
        health=asked["health"] or None,
        tenant=asked["tenant"] or None,
        format=asked["format"] or None,
        code=asked["code"] or None,
        sort=sort,
        descending=down,
        offset=offset,
        limit=PAGE,
    )
    summary = fleet.summary()
    kept = {**asked, "sort": sort if sort != "health" else "", "down": 1 if down else ""}
    content = {
        "heading": "Tables",
        "rows": found.rows,
        "asked": asked,
        "narrowed": any(asked.values()),
        "summary": summary,
        "choices": {
            "health": [name for name, count in summary.health.items() if count],
            "tenant": sorted(summary.tenants)[:MOST_CHOICES],
            "format": sorted(summary.formats),
            "code": sorted(summary.codes)[:MOST_CHOICES],
        },
        "pages": Pages.of("/tables", kept, offset, len(found.rows), found.total),
        "sorting": Sorting("/tables", asked, sort, down),
        "sort": sort,
        "down": down,
    }
    return page(request, service, user, "tables.html", content, here="/tables")
